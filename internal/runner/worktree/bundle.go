package worktree

import (
	"context"
	"io"
)

// Bundle writes the agent's branches and snapshots to out, as a git bundle. It leaves out commits that a remote has.
// Unless own is set, it also leaves out commits that are in tags, or in branches whose names do not begin with fleet/.
// If nothing remains, Bundle writes nothing. Set own if only the agent uses the repository. Then the bundle contains
// all branches of the repository.
func (g *Git) Bundle(ctx context.Context, t Tree, uid string, own bool, out io.Writer) error {
	v, err := g.view(t.Repository, false)
	if err != nil {
		return err
	}
	defer v.close()
	// The base commits of tasks are in the history of their snapshots.
	revs := []string{"--exclude=" + AgentRefs(uid) + "*.base", "--exclude=" + AgentRefs(uid) + "base", "--exclude=" + AgentRefs(uid) + "last.head", "--glob=" + AgentRefs(uid) + "*"}
	switch {
	case own:
		revs = append(revs, "--branches")
	default:
		have, err := g.refs(ctx, t)
		if err != nil {
			return err
		}
		for _, name := range t.publishedNames() {
			if _, ok := have["refs/heads/"+name]; ok {
				revs = append(revs, "refs/heads/"+name)
			}
		}
	}
	revs = append(revs, "--not", "--ignore-missing", "--remotes")
	if !own {
		revs = append(revs, "--tags", "--exclude=fleet/*", "--branches")
	}
	some, err := v.run(ctx, append([]string{"rev-list", "--max-count=1"}, revs...)...)
	if err != nil || some == "" {
		return err
	}
	return v.pipe(ctx, nil, out, append([]string{"bundle", "create", "--quiet", "-"}, revs...)...)
}
