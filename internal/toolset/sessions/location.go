package sessions

import (
	"os"
	"path/filepath"
	"strings"

	"fleet/internal/fleet"
)

// Location is where an agent made from a definition works. At most one field is set. If neither field is set, the agent
// works in an empty directory of its own.
type Location struct {
	Project   string // a project; the agent gets a working copy of its repository
	Directory string // a directory on this machine
}

// applyLocation sets the location in the configuration and returns its project. It returns INVALID_ARGUMENT if both
// fields are set, or if agents may not work in the directory.
func (s *Service) applyLocation(c *fleet.AgentConfig, l Location) (project string, err error) {
	switch {
	case l.Project != "" && l.Directory != "":
		return "", fleet.InvalidField("directory", "both project and directory are given: leave one out")
	case l.Project != "":
		c.Place = s.cfg.ProjectPlace
	case l.Directory != "":
		c.Dir, err = s.resolveDirectory(l.Directory)
	}
	return l.Project, err
}

// checkUnset returns an error if the caller has named a location. An agent of the fleet works in its own workspace.
func (l Location) checkUnset() error {
	if l == (Location{}) {
		return nil
	}
	field := "project"
	if l.Project == "" {
		field = "directory"
	}
	return fleet.InvalidField(field, "the agent is an agent of the fleet, which works in its own workspace: leave %s out, or name an agent that is defined in a file", field)
}

// requestBody returns the values that must be equal when a request id is used again: the parts and, if it is set, the location.
func (l Location) requestBody(parts ...string) []string {
	if l == (Location{}) {
		return parts
	}
	return append(parts, l.Project, l.Directory)
}

// resolveDirectory returns the path of the directory that the caller named, with symbolic links resolved. It returns
// INVALID_ARGUMENT if there is no such directory or agents may not work in it.
func (s *Service) resolveDirectory(name string) (string, error) {
	refuse := func(format string, args ...any) (string, error) {
		return "", fleet.InvalidField("directory", format, args...)
	}
	shown := fleet.Shorten(strings.ToValidUTF8(name, "?"), 200)
	dir := name
	if rest, ok := strings.CutPrefix(name, "~"); ok && (rest == "" || rest[0] == '/') {
		home, err := os.UserHomeDir()
		if err != nil {
			return refuse("directory begins with ~, but the server's user has no home directory: give a full path")
		}
		dir = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(dir) || strings.ContainsRune(dir, 0) {
		return refuse("directory is %q: give a full path on the server's machine, or one that begins with ~/", shown)
	}
	// The caller must not be able to tell forbidden directories from missing ones.
	forbidden := func() (string, error) {
		if s.cfg.AnyDirectory {
			return refuse("there is no directory %q on the server's machine that agents can work in", shown)
		}
		return refuse("there is no directory %q that agents may work in: the server's sessions.directories says which may be used", shown)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return forbidden()
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return forbidden()
	}
	if s.cfg.PrivateDir != "" { // it holds data of all principals
		private := s.cfg.PrivateDir
		if p, err := filepath.EvalSymlinks(private); err == nil {
			private = p
		}
		if isInside(dir, private) || isInside(private, dir) {
			return forbidden()
		}
	}
	if s.cfg.AnyDirectory {
		return dir, nil
	}
	for _, root := range s.cfg.Directories {
		if root, err := filepath.EvalSymlinks(root); err == nil && isInside(dir, root) {
			return dir, nil
		}
	}
	return forbidden()
}

// isInside reports whether the path is the directory or below it.
func isInside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
