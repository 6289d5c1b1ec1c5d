package worktree

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
)

// maxWorktrees limits how many of the agent's own worktrees are examined.
const maxWorktrees = 1000

// detached returns the commits that the agent's own worktrees have checked out without a branch, by the names under
// which they are collected. Agents create such worktrees with "git worktree add". Their branches are ordinary branches
// of the agent.
func (v *view) detached(ctx context.Context) (map[string]string, error) {
	heads := map[string]string{}
	for name, oid := range v.info.Detached {
		if oidPattern.MatchString(oid) && len(heads) < maxWorktrees {
			heads["refs/worktrees/"+refPart(name)] = oid
		}
	}
	found, err := v.present(ctx, slices.Collect(maps.Values(heads))) // a missing object would prevent collecting the others
	maps.DeleteFunc(heads, func(_, oid string) bool { return !slices.Contains(found, oid) })
	return heads, err
}

// present returns those of the objects that exist, in the same order.
func (v *view) present(ctx context.Context, oids []string) ([]string, error) {
	if len(oids) == 0 {
		return nil, nil
	}
	var out bytes.Buffer
	if err := v.pipe(ctx, strings.NewReader(strings.Join(oids, "\n")+"\n"), &out, "cat-file", "--batch-check=%(objectname)"); err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(out.String()) {
		if oid := strings.TrimSuffix(line, "\n"); oidPattern.MatchString(oid) {
			found = append(found, oid)
		}
	}
	return found, nil
}
