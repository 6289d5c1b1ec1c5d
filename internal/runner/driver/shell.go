package driver

import "strings"

// shell runs the task as a script. The first line may say which interpreter it is for ("#!/usr/bin/env python3");
// without it, it is for bash and ends at the first command that fails.
//
// The script's standard input is empty. Messages come as lines from the file that FLEET_MESSAGES names.
type shell struct{ argv []string }

func newShell(o Options) shell {
	if len(o.Command) > 0 {
		return shell{o.Command}
	}
	return shell{[]string{"bash", "-e"}}
}

func (s shell) Program() string { return s.argv[0] }

func (s shell) Keys() []string { return nil }

func (s shell) Command(j Job) (Command, error) {
	const name = "script"
	script := j.Prompt
	if !strings.HasSuffix(script, "\n") {
		script += "\n"
	}
	c := Command{
		Files:    []File{{Name: name, Data: script, Executable: true}},
		Messages: true,
		Format:   Format{Kind: "text"},
	}
	if strings.HasPrefix(script, "#!") {
		c.Argv = []string{j.path(name)}
	} else {
		c.Argv = append(append(c.Argv, s.argv...), j.path(name))
	}
	return c, nil
}
