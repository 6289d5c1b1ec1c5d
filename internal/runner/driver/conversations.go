package driver

import (
	"path/filepath"
	"regexp"
	"strings"
)

// Keeper is a driver whose program keeps its conversations outside the directory that it works in.
type Keeper interface {
	// Conversations returns where the program, run with the environment in the directory, keeps what was said: a
	// directory and a path below it. Both are empty when that is not known.
	Conversations(environ []string, dir string) (root, path string)
}

// Recorder is a driver whose program keeps each conversation in a file of its own.
type Recorder interface {
	// Record returns where the program, run with the environment in the directory, keeps a conversation: a pattern of package
	// path/filepath with RecordID in the place of the conversation's id. It is empty when that is not known.
	Record(environ []string, dir string) string
}

// RecordID stands for the id of a conversation in what Record returns.
const RecordID = "{id}"

// Furnisher is a driver whose program needs files in a home of the agent's own.
type Furnisher interface {
	// Furnish returns the files by their path in the home. One that is there already stays as it is.
	Furnish() map[string]string
}

// Converser is a driver whose tasks of an agent are one conversation.
type Converser interface{ Converses() }

// Converses implements Converser.
func (c claude) Converses() {}

// Converses implements Converser.
func (c codex) Converses() {}

// Converses implements Converser.
func (a agentClient) Converses() {}

// Record implements Recorder.
func (c claude) Record(environ []string, dir string) string {
	root, path := c.Conversations(environ, dir)
	if path == "" {
		return ""
	}
	return pattern(root) + "/" + path + "/" + RecordID + ".jsonl"
}

// Record implements Recorder. The directories are the year, the month and the day that the conversation began.
func (c codex) Record(environ []string, _ string) string {
	root := variable(environ, "CODEX_HOME")
	if home := variable(environ, "HOME"); root == "" && home != "" {
		root = filepath.Join(home, ".codex")
	}
	if !filepath.IsAbs(root) {
		return ""
	}
	return pattern(root) + "/sessions/[0-9][0-9][0-9][0-9]/[0-9][0-9]/[0-9][0-9]/rollout-*-" + RecordID + ".jsonl*"
}

var special = regexp.MustCompile(`[*?\[\\]`)

// pattern returns a pattern that matches the path alone.
func pattern(path string) string { return special.ReplaceAllString(path, `\$0`) }

func variable(environ []string, name string) (value string) {
	for _, v := range environ { // of two, the last one counts
		if key, val, ok := strings.Cut(v, "="); ok && key == name {
			value = val
		}
	}
	return value
}

var sessionID = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// RecordOf returns the pattern of the record of the session; empty when there is none.
func RecordOf(record, session string) string {
	id := parseConversation(session).id
	if record == "" || !sessionID.MatchString(id) {
		return ""
	}
	return strings.ReplaceAll(record, RecordID, id)
}

// longestProject is how long the name of a project's directory can be before Claude Code replaces its end by a hash.
const longestProject = 200

var notInProject = regexp.MustCompile(`[^A-Za-z0-9]`)

// Conversations is projects/NAME in the configuration directory of Claude Code, where NAME is made of the directory.
func (c claude) Conversations(environ []string, dir string) (root, path string) {
	root = variable(environ, "CLAUDE_CONFIG_DIR")
	if home := variable(environ, "HOME"); root == "" && home != "" {
		root = filepath.Join(home, ".claude")
	}
	project := notInProject.ReplaceAllString(dir, "-")
	if !filepath.IsAbs(root) || len(project) > longestProject {
		return "", ""
	}
	return root, filepath.Join("projects", project)
}
