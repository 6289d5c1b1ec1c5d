package worktree

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Check returns an error if the directory is not a repository that this process can write, or if it stores its refs in a
// format that Fleet cannot read.
func (g *Git) Check(ctx context.Context, dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return &Error{Message: "there is no directory " + dir}
	}
	if _, err := g.run(ctx, dir, "rev-parse", "--git-common-dir"); err != nil {
		return err
	}
	if g.Setting(ctx, dir, "extensions.refStorage") == "reftable" {
		return &Error{Message: "the repository stores its branches as a reftable, which Fleet cannot read: convert it with git refs migrate --ref-format=files, or let Fleet copy it with the URL file://" + dir}
	}
	common := commonDir(dir)
	for _, sub := range existingPaths(filepath.Join(common, "objects"), filepath.Join(common, "refs"), filepath.Join(common, "refs", "heads")) {
		if err := unix.Access(sub, unix.W_OK|unix.X_OK); err != nil {
			return &Error{Message: fmt.Sprintf("cannot write to %s (%v), so no work of agents could be collected: make it writable, or let Fleet copy the repository with the URL file://%s", sub, err, dir)}
		}
	}
	return nil
}

// Setting returns a setting that git uses in the repository, from the configuration of the repository, the user or the system. The
// value of a key that ends with gpgSign is "true" or "false". The result is empty if the setting does not exist or cannot be read.
func (g *Git) Setting(ctx context.Context, repository, key string) string {
	args := []string{"config", "--get", key}
	if strings.HasSuffix(key, "gpgSign") {
		args = []string{"config", "--type=bool", "--get", key}
	}
	value, _ := g.run(ctx, repository, args...)
	return value
}

// AgentBranch returns the name for the branch of an agent with the label. The name is fleet/label, or fleet-label if the repository or
// one of its remotes has a branch named fleet: a repository cannot have both fleet and fleet/label.
func (g *Git) AgentBranch(ctx context.Context, repository, label string) (string, error) {
	refs, err := g.refs(ctx, Tree{Repository: repository})
	if err != nil {
		return "", err
	}
	for name := range refs {
		if name == "refs/heads/fleet" || strings.HasPrefix(name, "refs/remotes/") && path.Base(name) == "fleet" {
			return "fleet-" + label, nil
		}
	}
	return "fleet/" + label, nil
}
