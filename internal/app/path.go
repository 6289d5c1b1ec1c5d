package app

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// withPaths returns the configuration with absolute paths: ~ is the home directory, and relative paths are relative to
// the working directory of the server. The local place resolves the paths of its projects in the same way.
func (c Config) withPaths() (Config, error) {
	c.Sessions.Directories = slices.Clone(c.Sessions.Directories)
	paths := map[string]*string{
		"data": &c.Data, "runner_dir": &c.RunnerDir, "coder.token_file": &c.Coder.TokenFile, "subagents.dir": &c.Subagents.Dir, "sessions.agents_dir": &c.Sessions.AgentsDir,
		"metrics_token_file": &c.MetricsTokenFile, "tls.cert": &c.TLS.Cert, "tls.key": &c.TLS.Key, "tls.client_ca": &c.TLS.ClientCA, "oidc.client_secret_file": &c.OIDC.ClientSecretFile,
	}
	for i := range c.Sessions.Directories {
		paths[fmt.Sprintf("sessions.directories[%d]", i)] = &c.Sessions.Directories[i]
	}
	for key, p := range paths {
		full, err := fullPath(*p)
		if err != nil {
			return c, fmt.Errorf("%s is %q: %w", key, *p, err)
		}
		*p = full
	}
	return c, nil
}

// fullPath returns the absolute path, with ~ replaced by the home directory. An empty path stays empty.
func fullPath(p string) (string, error) {
	if p == "" {
		return "", nil
	}
	if rest, ok := strings.CutPrefix(p, "~"); ok && (rest == "" || rest[0] == '/') {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("cannot find the home directory for ~: %w", err)
		}
		return filepath.Join(home, rest), nil
	}
	return filepath.Abs(p)
}

// privateFiles returns the files outside the data directory that no agent may read. The keys
// are the names of their settings, or "the configuration".
func (c Config) privateFiles() map[string]string {
	files := map[string]string{
		"tls.key": c.TLS.Key, "coder.token_file": c.Coder.TokenFile, "metrics_token_file": c.MetricsTokenFile, "oidc.client_secret_file": c.OIDC.ClientSecretFile,
	}
	if info, err := os.Stat(c.file); err == nil && info.Mode().Perm()&othersRead == 0 { // a file that all users may read has no secrets
		files["the configuration"] = c.file
	}
	maps.DeleteFunc(files, func(_, path string) bool { return path == "" })
	return files
}
