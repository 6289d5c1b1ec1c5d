package runner

import (
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
)

// confined returns the policy of one run: what the workspace allows, the run's own files, and the programs: its own, and
// those of the MCP servers that it starts.
func confined(p sandbox.Policy, run shim.Run, program string, servers map[string]driver.MCPServer, env []string) *sandbox.Policy {
	p.Write = append(slices.Clone(p.Write), run.Path(shim.FilesDir))
	p.Read = append(slices.Clone(p.Read), string(run))
	p.Read = append(p.Read, installed(program)...)
	for _, s := range servers {
		if s.Command == "" {
			continue
		}
		if path, err := Find(s.Command, env, "/"); err == nil { // one that is not there is for the program to tell
			p.Read = append(p.Read, installed(path)...)
		}
	}
	for _, v := range env {
		path, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			if !filepath.IsAbs(dir) || strings.HasPrefix(string(run), filepath.Clean(dir)+"/") {
				continue
			}
			p.Read = append(p.Read, dir)
			if filepath.Base(dir) == "bin" { // such as of node below a user's home
				p.Read = append(p.Read, filepath.Join(filepath.Dir(dir), "lib"))
			}
		}
	}
	return &p
}

// installed returns where a program that is not a part of the system was installed: the directory of its file, which may be
// found through links, and for a package of npm the directory of all packages.
func installed(program string) []string {
	paths := []string{program}
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return paths
	}
	if before, _, ok := strings.Cut(real, "/node_modules/"); ok {
		return append(paths, before+"/node_modules")
	}
	return append(paths, real)
}
