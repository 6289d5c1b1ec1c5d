package runner

import (
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
)

// credentialVariables are the variables that name a program's certificates and credentials.
var credentialVariables = []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "GOOGLE_APPLICATION_CREDENTIALS"}

// confined returns the policy of one run: that of the workspace, plus the run's files and the programs: the run's own,
// the one that it starts, and those of MCP servers.
func confined(p sandbox.Policy, run shim.Run, program, starts string, servers map[string]driver.MCPServer, env []string) *sandbox.Policy {
	p.Write = append(slices.Clone(p.Write), run.Path(shim.FilesDir))
	p.Read = append(slices.Clone(p.Read), string(run))
	p.Read = append(p.Read, installDirs(program)...)
	commands := []string{starts}
	for _, s := range servers {
		commands = append(commands, s.Command)
	}
	for _, command := range commands {
		if command == "" {
			continue
		}
		if path, err := Find(command, env, "/"); err == nil { // the program reports a missing command itself
			p.Read = append(p.Read, installDirs(path)...)
		}
	}
	for _, v := range env {
		name, path, _ := strings.Cut(v, "=")
		if slices.Contains(credentialVariables, name) {
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
			if filepath.Base(dir) == "bin" { // for example of node in a user's home
				p.Read = append(p.Read, filepath.Join(filepath.Dir(dir), "lib"))
			}
		}
	}
	return &p
}

// installDirs returns the paths of a program outside the system directories: its own, and that of the file to which it links
// or, for an npm package, of the directory with all packages.
func installDirs(program string) []string {
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
