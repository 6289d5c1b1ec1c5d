package worktree

import (
	"path"
	"regexp"
	"strings"
)

// reservedNamePattern matches names that git would not read as a branch: HEAD and similar names, abbreviated object names, options,
// and full names of refs.
var reservedNamePattern = regexp.MustCompile(`^([A-Z_-]+|[0-9a-fA-F]{4,64}|-.*|refs/.*)$`)

// refNames contains names that a new branch cannot have, because a branch or a remote branch has that name or is below it.
type refNames map[string]bool

// names returns the names of the branches and remote branches, and of the folders that contain them.
func (s refSet) names() refNames {
	n := refNames{}
	for name := range s {
		n.add(name)
	}
	return n
}

// add adds the name of the ref and its folders, if the ref is a branch or a remote branch.
func (n refNames) add(full string) {
	name, local := strings.CutPrefix(full, "refs/heads/")
	name, remote := strings.CutPrefix(name, "refs/remotes/")
	if !local && !remote {
		return
	}
	for ; name != "." && !n[name]; name = path.Dir(name) {
		n[name] = true
	}
}

// isFree reports whether the name is unused in the repository and can be the name of a branch.
func (n refNames) isFree(s refSet, name string) bool {
	if reservedNamePattern.MatchString(name) || n[name] {
		return false
	}
	for _, prefix := range []string{"refs/", "refs/tags/", "refs/heads/", "refs/remotes/"} {
		if _, ok := s[prefix+name]; ok {
			return false
		}
	}
	return !s.hasParentRef("refs/heads/" + name)
}

// folders returns the names that no ref can have, because other refs are below them.
func (s refSet) folders() map[string]bool {
	all := map[string]bool{}
	for name := range s {
		addFolders(all, name)
	}
	return all
}

func addFolders(all map[string]bool, name string) {
	for dir := path.Dir(name); dir != "." && !all[dir]; dir = path.Dir(dir) {
		all[dir] = true
	}
}

// hasParentRef reports whether a ref has the name of one of the folders of name. Then no ref can have the name.
func (s refSet) hasParentRef(name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := s[dir]; ok {
			return true
		}
	}
	return false
}
