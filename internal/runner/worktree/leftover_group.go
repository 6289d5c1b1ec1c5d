package worktree

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"fleet/internal/fleet"
)

// refGroup are the refs of one leftover.
type refGroup []leftoverRef

// groupRefs groups the refs by agent, kind and proof.
func groupRefs(all []leftoverRef) []refGroup {
	type key struct {
		uid    string
		branch bool
		proof  fleet.LeftoverProof
	}
	byKey := map[key]refGroup{}
	var keys []key
	for _, r := range all {
		k := key{r.uid, strings.HasPrefix(r.name, "refs/heads/"), r.proof}
		if byKey[k] == nil {
			keys = append(keys, k)
		}
		byKey[k] = append(byKey[k], r)
	}
	groups := make([]refGroup, 0, len(keys))
	for _, k := range keys {
		groups = append(groups, byKey[k])
	}
	return groups
}

// leftover describes the refs, without their size.
func (g refGroup) leftover(repository string) fleet.Leftover {
	l := fleet.Leftover{Kind: fleet.LeftoverSnapshots, AgentUID: g[0].uid, Location: repository, Count: len(g), Proof: g[0].proof}
	for _, r := range g {
		name, branch := strings.CutPrefix(r.name, "refs/heads/")
		if branch {
			l.Kind = fleet.LeftoverBranches
		}
		if len(l.Names) < fleet.MaxLeftoverNames {
			l.Names = append(l.Names, name)
		}
		if r.at.After(l.Newest) {
			l.Newest = r.at
		}
	}
	switch l.Proof {
	case fleet.LeftoverElsewhere:
		l.Reason = "the commits are in other branches, tags or remote branches"
	case fleet.LeftoverSettled:
		l.Reason = "the work has landed or was abandoned"
	case fleet.LeftoverUnproved:
		l.Reason = "the commits may exist nowhere else"
	}
	return l
}

// sizeOf returns the size of the objects that only the refs of p need, in bytes on the disk. Objects that refs of
// the same agent in later also need are included, because these refs may be removed too. Objects of the refs in counted are left out,
// because they are part of the sizes of those groups.
func (v *view) sizeOf(ctx context.Context, p refGroup, counted, later []refGroup) (int64, error) {
	removable := map[string]bool{}
	var tips, others []string
	for _, r := range p {
		removable[r.name] = true
		tips = append(tips, r.oid)
	}
	for _, group := range later {
		for _, r := range group {
			removable[r.name] = removable[r.name] || r.uid == p[0].uid
		}
	}
	for _, group := range counted {
		for _, r := range group {
			others = append(others, r.oid)
		}
	}
	err := v.eachRef(ctx, []string{"refs"}, func(name string, r ref) {
		if !removable[name] {
			others = append(others, r.oid)
		}
	})
	if err != nil {
		return 0, err
	}
	var out bytes.Buffer
	if err := v.pipe(ctx, revisions(tips, others), &out, "rev-list", "--objects", "--disk-usage", "--ignore-missing", "--stdin"); err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
}
