package local

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/worktree"
)

// pathUse is a path, and a text for errors that says why the path matters.
type pathUse struct {
	path, why       string
	fromVariables   bool // runner.ReadablePaths returned it: a run may not read it if it contains the run's own directory
	allowsWorkBelow bool // a caller may let an agent work in a directory below the path, but not in the path or above it: see checkDir
}

// paths are the paths of a configuration that matter for confinement. The sandbox would have no effect if an agent could change
// a program that another agent or the server runs, or a link in a path of another agent's sandbox. If a path matters for several
// reasons, only the first is kept.
type paths struct {
	write   []pathUse // paths that agents may write
	fixed   []pathUse // paths that no agent may change
	read    []pathUse // paths that agents may read
	private []pathUse // paths that no agent may read
}

// checkPaths returns the paths of the configuration. It returns an error if the configuration lets agents write or read
// something on which the confinement depends. c.Dir must exist. checkPaths resolves the symbolic links of the paths in c and
// projects that agents may read or write.
func (c *Config) checkPaths(projects []project) (all paths, err error) {
	for i := range projects {
		p := &projects[i]
		if mode, err := sandbox.Choose(p.Sandbox, p.Network); err != nil || mode == sandbox.None {
			continue
		}
		if err := all.addProject(c, p); err != nil {
			return all, fmt.Errorf("project %q: %w", p.Name, err)
		}
	}
	if mode, err := sandbox.Choose(c.Sandbox, ""); len(all.read) == 0 && (err != nil || mode == sandbox.None) {
		return all, err
	}
	if err := all.addConfig(c); err != nil {
		return all, err
	}
	return all, all.firstConflict(filepath.Join(c.Dir, "agents"), filepath.Join(c.Dir, "caches"), filepath.Join(c.Dir, "memory"), filepath.Join(c.Dir, "checks"))
}

// checkDir returns an error if dir is not the absolute path of a directory, or if no agent may work in it because the sandboxes of
// agents depend on it.
func (p *Place) checkDir(dir string) error {
	if info, err := os.Stat(dir); !filepath.IsAbs(dir) || err != nil || !info.IsDir() {
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "%q is not a directory on this machine: give the full path of the agent's working directory", dir)
	}
	if mode, err := sandbox.Choose(p.config.Sandbox, ""); err != nil || mode == sandbox.None {
		return nil //nolint:nilerr // without a sandbox, agents can change any path anyway
	}
	if err := p.setup.Load().paths.checkDir(dir); err != nil {
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "%s", err)
	}
	return nil
}

// checkDir returns an error for the first conflict between the paths and a directory in which a caller lets an agent work.
func (s *paths) checkDir(dir string) error {
	w := pathUse{path: dir, why: "the agent's working directory"}
	for _, f := range s.fixed {
		for _, path := range linkTrail(f.path) {
			if isInside(dir, path) || !f.allowsWorkBelow && isInside(path, dir) {
				return conflictError(w, pathUse{path: path, why: f.why})
			}
		}
	}
	for _, other := range s.write {
		if dir != other.path && (isInside(dir, other.path) || isInside(other.path, dir)) {
			return conflictError(w, other)
		}
	}
	return nil
}

// addConfig adds the paths that do not belong to one project.
func (s *paths) addConfig(c *Config) error {
	if err := s.addWritable(c.Write, "which local.write names"); err != nil {
		return err
	}
	s.addReadable(c.Read, "which local.read names")
	s.addReadable(slices.Clone(sandbox.SystemPaths()), "which all agents may read")
	for _, m := range versionManagers {
		if dir := (&Place{config: *c}).versionsDir(m); dir != "" {
			s.addReadable([]string{dir}, "which has versions of programs on PATH")
		}
	}
	s.addVariablePaths(c.Environ, "", "which PATH or another variable of the server names")
	for _, program := range append([]string{c.Program}, c.Models.Command[:min(1, len(c.Models.Command))]...) {
		s.addFixed(program, "a program of Fleet")
	}
	if git, err := worktree.Program(); err == nil {
		s.addFixed(git, "a program that the server runs")
	}
	for _, files := range loginFiles {
		for _, name := range files {
			path := filepath.Join(runner.PickVariables(c.Environ, []string{"HOME"})["HOME"], name)
			if _, err := os.Stat(path); err == nil {
				s.addFixed(path, "the login of an agent program")
			}
		}
	}
	s.addFixed(c.Dir, "the data of the server")
	s.private = append(s.private, pathUse{path: c.Dir, why: "data"})
	for _, setting := range slices.Sorted(maps.Keys(c.PrivateFiles)) {
		s.addFixed(c.PrivateFiles[setting], "which "+setting+" names")
		s.private = append(s.private, pathUse{path: c.PrivateFiles[setting], why: setting})
	}
	return nil
}

// addProject adds the paths of one project.
func (s *paths) addProject(c *Config, p *project) error {
	if err := s.addWritable(p.Write, "which write of the project "+p.Name+" names"); err != nil {
		return err
	}
	s.addReadable(p.Read, "which read of the project "+p.Name+" names")
	env := (&Place{config: *c}).environ(*p, nil, nil)
	program := ""
	if name := p.driver.Program(); name != "" {
		if path, err := runner.FindProgram(name, env, "/"); err == nil { // a missing program is reported later, to those who need it
			program = path
		}
	}
	s.addVariablePaths(env, program, "which the program, PATH or another variable of the project "+p.Name+" names")
	if p.Repository != "" && !isRemote(p.Repository) {
		why := "the repository of the project " + p.Name
		s.fixed = appendNew(s.fixed, pathUse{path: p.Repository, why: why, allowsWorkBelow: true})
		for _, dir := range worktree.ReadableDirs(p.Repository) {
			s.addFixed(dir, why)
		}
	}
	for _, r := range p.Roles {
		if r.PromptFile != "" {
			s.addFixed(r.PromptFile, "the prompt of the role "+r.Name)
		}
	}
	return nil
}

// addWritable adds paths that agents may write, and resolves the symbolic links of each path in the list.
func (s *paths) addWritable(list []string, why string) error {
	for i, path := range list {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return fmt.Errorf("write has a path that cannot be used: %w: create it, or remove it from write", err)
		}
		list[i] = target
		s.write = append(s.write, pathUse{path: target, why: why})
	}
	return nil
}

// addReadable adds paths that agents may read and must not change, and resolves the symbolic links of each path in the list.
func (s *paths) addReadable(list []string, why string) {
	for i, path := range list {
		s.fixed = appendNew(s.fixed, pathUse{path: path, why: why, allowsWorkBelow: true})
		list[i] = linkTarget(path)
		s.read = appendNew(s.read, pathUse{path: list[i], why: why})
	}
}

// addVariablePaths adds the paths that agents may read because of their program and their environment.
func (s *paths) addVariablePaths(env []string, program, why string) {
	for _, path := range runner.ReadablePaths(env, program) {
		s.addFixed(path, why)
		s.read = appendNew(s.read, pathUse{path: linkTarget(path), why: why, fromVariables: true})
	}
}

func (s *paths) addFixed(path, why string) {
	s.fixed = appendNew(s.fixed, pathUse{path: path, why: why})
}

// appendNew appends the use of a path to the list. It does nothing if the list has this use already, even for another reason.
// Projects have most of their paths in common.
func appendNew(list []pathUse, use pathUse) []pathUse {
	if slices.ContainsFunc(list, func(u pathUse) bool {
		u.why = use.why
		return u == use
	}) {
		return list
	}
	return append(list, use)
}

// firstConflict returns an error for the first conflict between the paths. agentsDir is the directory with the agents' own directories.
// sharedDirs are the directories that agents share, such as those with caches and memories.
func (s *paths) firstConflict(agentsDir string, sharedDirs ...string) error {
	for _, f := range s.fixed {
		for _, path := range linkTrail(f.path) {
			for _, dir := range append(sharedDirs, agentsDir) {
				if isInside(dir, path) {
					return fmt.Errorf("%s, %s, is in the directory of agents %s, where an agent could replace it: move it", path, f.why, dir)
				}
			}
			for _, w := range s.write {
				if isInside(w.path, path) || isInside(path, w.path) {
					return conflictError(w, pathUse{path: path, why: f.why})
				}
			}
		}
	}
	for i, a := range s.write {
		for _, b := range s.write[:i] {
			if a.path != b.path && (isInside(a.path, b.path) || isInside(b.path, a.path)) {
				return conflictError(a, b)
			}
		}
	}
	for _, p := range s.private {
		target := linkTarget(p.path)
		for _, r := range s.read {
			if r.fromVariables && isInside(r.path, agentsDir) {
				continue
			}
			if isInside(r.path, target) {
				return fmt.Errorf("%s is %s, which agents can read, because they can read %s, %s: choose another path, such as one below /var/lib or your home directory", p.why, p.path, r.path, r.why)
			}
		}
	}
	return nil
}

// conflictError returns the error for the path w, which agents may write, and the path other, which they could change because of
// that.
func conflictError(w, other pathUse) error {
	relation := "is in"
	if isInside(w.path, other.path) {
		relation = "contains"
	}
	return fmt.Errorf("agents may write %s, %s, but it %s %s, %s: an agent could change what other agents or the server run and read; allow only directories that nothing else uses, such as a cache",
		w.path, w.why, relation, other.path, other.why)
}

// isInside reports whether the path is dir or in it.
func isInside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// linkTarget returns the path with its symbolic links followed. Unlike filepath.EvalSymlinks, it also works for a path that does
// not exist.
func linkTarget(path string) string {
	trail := linkTrail(path)
	return trail[len(trail)-1]
}

// maxLinks is how many symbolic links linkTrail follows, as in the kernel.
const maxLinks = 40

// linkTrail returns the path of each symbolic link that the system follows when it opens the path, and then the path to which
// the links lead.
func linkTrail(path string) (all []string) {
	path = filepath.Clean(path)
	for range maxLinks {
		link, target := firstLink(path)
		if link == "" {
			break
		}
		all = append(all, link)
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		path = filepath.Join(target, strings.TrimPrefix(path, link))
	}
	return append(all, path)
}

// firstLink returns the first symbolic link in the path, and its target. It returns "" if there is none.
func firstLink(path string) (link, target string) {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != filepath.Separator {
			continue
		}
		if target, err := os.Readlink(path[:i]); err == nil {
			return path[:i], target
		}
	}
	return "", ""
}
