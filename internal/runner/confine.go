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

// confinedPolicy returns the sandbox policy of one run. To the workspace's policy p it adds the run's files, the program, the
// agent's program that this program starts, the commands of the MCP servers, the paths in credentialVariables, and the
// directories in PATH with their installations. agentProgram is empty if program starts no other program.
func confinedPolicy(p sandbox.Policy, run shim.Run, program, agentProgram string, servers map[string]driver.MCPServer, env []string) *sandbox.Policy {
	p.Write = append(slices.Clone(p.Write), run.Path(shim.FilesDir))
	p.Read = append(slices.Clone(p.Read), string(run))
	r := &readableSet{run: string(run), policyPaths: p.Read}
	r.addProgram(program)
	commands := []string{agentProgram}
	for _, s := range servers {
		commands = append(commands, s.Command)
	}
	for _, command := range commands {
		if command == "" {
			continue
		}
		if path, err := FindProgram(command, env, "/"); err == nil { // the program reports a missing command itself
			r.addProgram(path)
		}
	}
	r.addEnviron(env)
	p.Read = append(p.Read, r.paths...)
	return &p
}

// programPaths returns the paths that a program needs. The first is its own path. The second is its path without
// symbolic links or, for an npm package, the node_modules directory that contains it.
func programPaths(program string) []string {
	paths := []string{program}
	target, err := filepath.EvalSymlinks(program)
	if err != nil {
		return paths
	}
	if before, _, ok := strings.Cut(target, "/node_modules/"); ok {
		return append(paths, before+"/node_modules")
	}
	return append(paths, target)
}
