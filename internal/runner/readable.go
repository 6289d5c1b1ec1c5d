package runner

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxReadablePaths limits the paths of a readableSet, so that a directory with very many links costs little.
const maxReadablePaths = 512

// Names of the files and directories next to a directory of programs that belong to the same installation. Other names are left out: a home
// directory, a repository or a tool's own directory may also have a bin, with secrets next to it.
var (
	besideBin  = []string{"lib", "lib32", "lib64", "libexec"}                           // next to bin and sbin
	besideMore = []string{"include", "share", "pyvenv.cfg", "release", "conf", "jmods"} // the same, but not in ~/.local, where share has logins
	besideGo   = []string{"src", "pkg", "VERSION", "go.env", "misc", "api"}             // next to the bin of a Go installation
	// next to the shims of a version manager
	besideShims = []string{"bin", "lib", "libexec", "versions", "installs", "plugins", "version", "defaults", "pyenv.d", "rbenv.d", "nodenv.d", "goenv.d", "jenv.d"}
)

// systemBins are directories whose links lead to other files of the system, so their links are not followed.
var systemBins = []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin"}

// readableSet collects the paths that a confined run may read because its program, its servers or PATH name them: the
// directories, the installations around them, and the targets of their links.
type readableSet struct {
	run         string   // the run's directory; its parents may also contain the runs of other agents
	policyPaths []string // paths that the workspace's sandbox policy already lets the run read
	paths       []string
	visited     map[string]bool // directories that addProgramDir has added
}

// add adds an absolute path. It leaves out a path that contains the run's directory, that is in one of the other paths or in
// policyPaths, or that exceeds maxReadablePaths.
func (r *readableSet) add(path string) {
	path = filepath.Clean(path)
	isInside := func(dir string) bool { return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }
	if !filepath.IsAbs(path) || strings.HasPrefix(r.run, strings.TrimSuffix(path, "/")+"/") || len(r.paths) >= maxReadablePaths ||
		slices.ContainsFunc(r.policyPaths, isInside) || slices.ContainsFunc(r.paths, isInside) {
		return
	}
	r.paths = append(r.paths, path)
}

// addProgram adds a program. If the path leads through a link, addProgram also adds the installation of the link's target.
func (r *readableSet) addProgram(path string) {
	for _, p := range programPaths(path) {
		r.add(p)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
		r.addInstallation(filepath.Dir(target))
	}
}

// addInstallation adds the directory and its installation, but only if the directory has the name of a directory of programs.
func (r *readableSet) addInstallation(dir string) {
	if base := filepath.Base(dir); base == "bin" || base == "sbin" {
		r.addProgramDir(dir)
	}
}

// addProgramDir adds a directory of programs and its installation. It also adds the programs to which the directory has links,
// unless it is one of systemBins.
func (r *readableSet) addProgramDir(dir string) {
	if dir = filepath.Clean(dir); !filepath.IsAbs(dir) || r.visited[dir] {
		return
	}
	if r.visited == nil {
		r.visited = map[string]bool{}
	}
	r.visited[dir] = true
	r.add(dir)
	if target, err := filepath.EvalSymlinks(dir); err == nil && target != dir { // for example a link to the current version
		r.addProgramDir(target)
		return
	}
	root := filepath.Dir(dir)
	var beside []string
	switch filepath.Base(dir) {
	case "bin", "sbin":
		beside = besideBin
		if filepath.Base(root) != ".local" {
			beside = slices.Concat(beside, besideMore)
		}
		if _, err := os.Stat(filepath.Join(root, "pkg", "tool")); err == nil {
			beside = slices.Concat(beside, besideGo)
		}
	case "shims":
		beside = besideShims
	}
	for _, name := range beside {
		r.add(filepath.Join(root, name))
	}
	if slices.Contains(systemBins, dir) {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // nothing can be started from it
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			r.addProgram(path)
		}
	}
}

// addEnviron adds the directories in PATH with their installations, and the paths in the credentialVariables.
func (r *readableSet) addEnviron(env []string) {
	for _, v := range env {
		name, list, _ := strings.Cut(v, "=")
		for _, path := range filepath.SplitList(list) {
			switch {
			case name == "PATH":
				r.addProgramDir(path)
			case slices.Contains(credentialVariables, name):
				r.add(path)
			}
		}
	}
}

// ReadablePaths returns the paths that a confined run may read because of the environment and the program. It does not know the run:
// a path that contains the run's own directory must not be readable. The program may be empty.
func ReadablePaths(env []string, program string) []string {
	r := &readableSet{}
	if program != "" {
		r.addProgram(program)
	}
	r.addEnviron(env)
	return r.paths
}
