package runner

import (
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
)

// trusted are the variables that say where a program finds the certificates that it trusts, and those that it logs in with.
var trusted = []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "GOOGLE_APPLICATION_CREDENTIALS"}

// confined returns the policy of one run: what the workspace allows, the run's own files, and the programs: its own, the one
// that this one starts, and those of the MCP servers.
func confined(p sandbox.Policy, run shim.Run, program, starts string, servers map[string]driver.MCPServer, env []string) *sandbox.Policy {
	p.Write = append(slices.Clone(p.Write), run.Path(shim.FilesDir))
	p.Read = append(slices.Clone(p.Read), string(run))
	p.Read = append(p.Read, installed(program)...)
	commands := []string{starts}
	for _, s := range servers {
		commands = append(commands, s.Command)
	}
	for _, command := range commands {
		if command == "" {
			continue
		}
		if path, err := Find(command, env, "/"); err == nil { // one that is not there is for the program to tell
			p.Read = append(p.Read, installed(path)...)
		}
	}
	for _, v := range env {
		name, path, _ := strings.Cut(v, "=")
		if slices.Contains(trusted, name) {
			p.Read = append(p.Read, slices.DeleteFunc(filepath.SplitList(path), func(f string) bool { return !filepath.IsAbs(f) })...)
		}
		if name != "PATH" {
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
