package worktree

import (
	"context"
	"io"
)

// Bundle writes the agent's branches and snapshots to out, as a git bundle. It leaves out commits that a remote has.
// If nothing remains, Bundle writes nothing. Set exclusive if only the agent uses the repository: then the bundle has all branches of
// the repository. Otherwise it also leaves out commits that are in tags, or in branches whose names do not begin with fleet/.
func (g *Git) Bundle(ctx context.Context, t Tree, exclusive bool, out io.Writer) error {
	v, err := g.openRepository(t.Repository)
	if err != nil {
		return err
	}
	defer v.close()
	// The base commits of tasks are in the history of their snapshots.
	prefix := agentRefPrefix(t.UID)
	revs := []string{"--exclude=" + prefix + "*.base", "--exclude=" + prefix + "base", "--exclude=" + prefix + "last.head", "--glob=" + prefix + "*"}
	if exclusive {
		revs = append(revs, "--branches")
	} else {
		refs, err := g.refs(ctx, t)
		if err != nil {
			return err
		}
		for _, name := range t.publishedNames() {
			if _, ok := refs["refs/heads/"+name]; ok {
				revs = append(revs, "refs/heads/"+name)
			}
		}
	}
	revs = append(revs, "--not", "--ignore-missing", "--remotes")
	if !exclusive {
		revs = append(revs, "--tags", "--exclude=fleet/*", "--branches")
	}
	first, err := v.run(ctx, append([]string{"rev-list", "--max-count=1"}, revs...)...)
	if err != nil || first == "" {
		return err
	}
	return v.pipe(ctx, nil, out, append([]string{"bundle", "create", "--quiet", "-"}, revs...)...)
}
