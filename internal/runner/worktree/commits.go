package worktree

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// maxNamedBranches limits the number of branches in Work.Branches.
const maxNamedBranches = 10

// Commits returns the number of commits that are only on branches of the agent in the repository, and at most maxNamedBranches of
// these branches. It leaves out the agent's first branch if all its commits are also on other branches, because Remove removes it then.
func (g *Git) Commits(ctx context.Context, t Tree) (n int, branches []string, err error) {
	refs, err := g.refs(ctx, t)
	if err != nil {
		return 0, nil, err
	}
	v, err := g.openRepository(t.Repository)
	if err != nil {
		return 0, nil, err
	}
	defer v.close()
	tipBranches := map[string][]string{} // maps the commit of an agent's branch to the names of the branches at that commit
	for _, name := range t.publishedNames() {
		if oid := refs["refs/heads/"+name].oid; oid != "" {
			tipBranches[oid] = append(tipBranches[oid], name)
		}
	}
	tips := slices.Sorted(maps.Keys(tipBranches))
	others := refs.commitsWithout(t, func(name string) bool { return slices.Contains(tipBranches[refs["refs/heads/"+name].oid], name) })
	// A branch has commits of its own if and only if its newest commit is one of them.
	err = v.eachCommitExcept(ctx, tips, others, func(oid string) {
		n++
		branches = append(branches, tipBranches[oid]...)
	})
	firstBranch := t.PublishedBranch()
	if i := slices.Index(branches, firstBranch); i >= 0 && err == nil {
		hasCommits := false
		err = v.eachCommitExcept(ctx, []string{refs["refs/heads/"+firstBranch].oid}, refs.commitsWithout(t, func(name string) bool { return name == firstBranch }), func(string) { hasCommits = true })
		if !hasCommits {
			branches = slices.Delete(branches, i, i+1)
		}
	}
	slices.SortFunc(branches, func(a, b string) int { // Remove must find the first branch in the list
		switch firstBranch {
		case a:
			return -1
		case b:
			return 1
		}
		return strings.Compare(a, b)
	})
	if len(branches) > maxNamedBranches {
		branches = branches[:maxNamedBranches]
	}
	return n, branches, err
}

// commitsWithout returns the commits of the refs in the set. It leaves out the refs below agentRefPrefix, and the branches for which exclude
// returns true.
func (s refSet) commitsWithout(t Tree, exclude func(branch string) bool) []string {
	rest := refSet{}
	for full, r := range s {
		name, ok := strings.CutPrefix(full, "refs/heads/")
		if !strings.HasPrefix(full, agentRefPrefix(t.UID)) && (!ok || !exclude(name)) {
			rest[full] = r
		}
	}
	return rest.oids()
}

// eachCommitExcept calls the function for each commit in the histories of tips that is not in the histories of others.
func (v *view) eachCommitExcept(ctx context.Context, tips, others []string, commit func(oid string)) error {
	tips, err := v.existingObjects(ctx, tips)
	if err != nil || len(tips) == 0 {
		return err
	}
	return v.pipe(ctx, revisions(tips, others), &lineWriter{each: commit}, "rev-list", "--ignore-missing", "--stdin")
}

// revisions returns the input with which git lists the commits in the history of tips that are not in the history of others.
func revisions(tips, others []string) *strings.Reader {
	var b strings.Builder
	for _, tip := range tips {
		b.WriteString(tip + "\n")
	}
	for _, tip := range others {
		b.WriteString("^" + tip + "\n")
	}
	return strings.NewReader(b.String())
}
