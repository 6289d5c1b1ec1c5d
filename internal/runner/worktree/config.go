package worktree

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
)

// findConfigPaths returns the files outside the system's directories that git reads: the user's configuration files, the
// files that these name, and git's installation.
func (g *Git) findConfigPaths() []string {
	var paths []string
	if real, err := filepath.EvalSymlinks(g.program); err == nil {
		paths = append(paths, g.program, real)
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	if dir, err := g.run(ctx, "/", "--exec-path"); err == nil {
		paths = append(paths, dir)
	}
	for _, v := range g.env {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case !filepath.IsAbs(value):
		case name == "HOME":
			paths = append(paths, filepath.Join(value, ".gitconfig"), filepath.Join(value, ".config/git"))
		case name == "XDG_CONFIG_HOME":
			paths = append(paths, filepath.Join(value, "git"))
		}
	}
	// git fails if the user has no configuration.
	listed, _ := g.run(ctx, "/", "config", "--global", "--includes", "--show-origin", "-z", "--list")
	fields := strings.Split(listed, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		if file, ok := strings.CutPrefix(fields[i], "file:"); ok && filepath.IsAbs(file) {
			paths = append(paths, file)
		}
		switch key, _, _ := strings.Cut(fields[i+1], "\n"); key {
		case "core.excludesfile", "core.attributesfile":
			if file, err := g.run(ctx, "/", "config", "--global", "--includes", "--path", "--get", key); err == nil && filepath.IsAbs(file) {
				paths = append(paths, file)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
