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

// longestProject is how long the name of a project's directory can be before Claude Code replaces its end by a hash.
const longestProject = 200

var notInProject = regexp.MustCompile(`[^A-Za-z0-9]`)

// Conversations is projects/NAME in the configuration directory of Claude Code, where NAME is made of the directory.
func (c claude) Conversations(environ []string, dir string) (root, path string) {
	for _, v := range environ {
		switch name, value, _ := strings.Cut(v, "="); {
		case name == "CLAUDE_CONFIG_DIR" && value != "":
			root = value
		case name == "HOME" && value != "" && root == "":
			root = filepath.Join(value, ".claude")
		}
	}
	project := notInProject.ReplaceAllString(dir, "-")
	if !filepath.IsAbs(root) || len(project) > longestProject {
		return "", ""
	}
	return root, filepath.Join("projects", project)
}
