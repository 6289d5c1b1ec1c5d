package driver

import "strings"

// shell runs the task as a script. The first line may name an interpreter ("#!/usr/bin/env python3"). Without it,
// Options.Command runs the script. The default is "bash -e", which stops at the first command that fails.
//
// The script has no standard input. It can read messages as lines from the file in FLEET_MESSAGES.
type shell struct{ argv []string }

func (s shell) Program() string { return s.argv[0] }

func (s shell) Keys() []string { return nil }

func (s shell) Command(j Job) (Command, error) {
	const name = "script"
	script := j.Prompt
	if !strings.HasSuffix(script, "\n") {
		script += "\n"
	}
	c := Command{
		Files:         []File{{Name: name, Data: script, Executable: true}},
		ReadsMessages: true,
		Format:        Format{Kind: "text"},
	}
	if strings.HasPrefix(script, "#!") {
		c.Argv = []string{j.path(name)}
	} else {
		c.Argv = append(append(c.Argv, s.argv...), j.path(name))
	}
	return c, nil
}
