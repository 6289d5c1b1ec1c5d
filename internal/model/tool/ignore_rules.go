//go:build cgo

package tool

import (
	"os"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// maxGitIgnore limits how much of a .gitignore file is read, in bytes.
const maxGitIgnore = 1 << 20

// ignoreRules finds out which files git ignores. It reads each .gitignore once, through the root.
type ignoreRules struct {
	dir           *os.Root
	off           bool                           // ignores nothing
	patternsByDir map[string][]gitignore.Pattern // patterns in effect, by directory
}

func newIgnoreRules(dir *os.Root, off bool) *ignoreRules {
	return &ignoreRules{dir: dir, off: off, patternsByDir: map[string][]gitignore.Pattern{}}
}

// ignores reports whether git ignores the file or stores its own data in it. It returns false for every file if the rules are
// off.
func (i *ignoreRules) ignores(name string, isDir bool) bool {
	switch {
	case i.off || name == ".":
		return false
	case path.Base(name) == ".git":
		return true
	}
	return gitignore.NewMatcher(i.patterns(path.Dir(name))).Match(strings.Split(name, "/"), isDir)
}

// patterns returns the patterns that apply in the directory, including those of its parent directories.
func (i *ignoreRules) patterns(dir string) []gitignore.Pattern {
	if p, ok := i.patternsByDir[dir]; ok {
		return p
	}
	var all []gitignore.Pattern
	var domain []string
	if dir != "." {
		all = append(all, i.patterns(path.Dir(dir))...)
		domain = strings.Split(dir, "/")
	}
	text, err := contents(i.dir, path.Join(dir, ".gitignore"), maxGitIgnore)
	if err == nil {
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimRight(line, "\r\n"); line != "" && !strings.HasPrefix(line, "#") {
				all = append(all, gitignore.ParsePattern(line, domain))
			}
		}
	}
	i.patternsByDir[dir] = all
	return all
}
