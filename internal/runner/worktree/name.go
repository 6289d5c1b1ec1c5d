package worktree

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxSuffix is the highest number that is appended to a branch's name to find a free name.
const maxSuffix = 9

// PublishedBranch returns the branch of the repository that has the commits of the agent's branch. It differs from
// t.Branch if somebody else has changed t.Branch in the repository, or has checked it out there.
func (t Tree) PublishedBranch() string {
	if p, ok := t.readPublished()[t.Branch]; ok {
		return p.Name
	}
	return t.Branch
}

// publishedNames returns the names of all branches that the agent has in the repository, sorted.
func (t Tree) publishedNames() []string {
	names := []string{t.PublishedBranch()}
	for _, p := range t.readPublished() {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// candidateNames returns the possible names in the repository for a branch of the agent, the best first.
func (r *refRecord) candidateNames(t Tree, branch string) []string {
	other := t.Branch + "-" + strings.ReplaceAll(branch, "/", "-")
	all := []string{branch, other}
	if branch == t.Branch {
		other, all = t.Branch, []string{branch}
	}
	for n := 2; n <= maxSuffix; n++ {
		all = append(all, other+"-"+strconv.Itoa(n))
	}
	// Git cannot have fleet/x and fleet, which somebody may have created meanwhile.
	all = append(all, strings.ReplaceAll(other, "/", "-"))
	if last := r.Published[branch].Name; last != "" {
		all = slices.Insert(all, 0, last)
	}
	return all
}

// branchOf returns where people find the commit head of the agent's branch: a branch of the repository or, if no
// name was free, the full name of a ref of the agent. have are the refs of the repository after the branch was
// collected. If no branch has the commit, the result is the published branch, which somebody has moved since, or empty if that
// branch does not exist.
func (t Tree) branchOf(have refSet, branch, head string) (string, error) {
	record, err := t.readRecord()
	if err != nil || branch == "" {
		return "", err
	}
	is := func(name string) bool { return name != "" && head != "" && have["refs/heads/"+name].oid == head }
	mine := record.Published[branch].Name
	for _, name := range []string{mine, branch} {
		if is(name) {
			return name, nil
		}
	}
	for _, p := range slices.SortedFunc(maps.Values(record.Published), func(a, b publishedBranch) int { return strings.Compare(a.Name, b.Name) }) {
		if is(p.Name) {
			return p.Name, nil
		}
	}
	if own := AgentRefs(t.UID) + "heads/" + branch; head != "" && have[own].oid == head {
		return own, nil
	}
	for _, full := range slices.Sorted(maps.Keys(have)) {
		if name, ok := strings.CutPrefix(full, "refs/heads/"); ok && is(name) {
			return name, nil
		}
	}
	if have["refs/heads/"+mine].oid != "" {
		return mine, nil // somebody has moved the branch since it was collected
	}
	return "", nil
}

// maxNamedBranches limits the number of branches in Work.Branches.
const maxNamedBranches = 10

// Commits returns the number of commits that are only on branches of the agent in the repository, and at most maxNamedBranches of
// these branches. It leaves out the agent's first branch if all its commits are also on other branches, because Remove removes it then.
func (g *Git) Commits(ctx context.Context, t Tree) (n int, branches []string, err error) {
	have, err := g.refs(ctx, t)
	if err != nil {
		return 0, nil, err
	}
	v, err := g.view(t.Repository, false)
	if err != nil {
		return 0, nil, err
	}
	defer v.close()
	own := map[string][]string{} // maps the commit of an agent's branch to the names of the branches at that commit
	for _, name := range t.publishedNames() {
		if oid := have["refs/heads/"+name].oid; oid != "" {
			own[oid] = append(own[oid], name)
		}
	}
	tips := slices.Sorted(maps.Keys(own))
	others := have.commitsWithout(t, func(name string) bool { return slices.Contains(own[have["refs/heads/"+name].oid], name) })
	// A branch has commits of its own if its last commit is one.
	err = v.eachExclusive(ctx, tips, others, func(oid string) {
		n++
		branches = append(branches, own[oid]...)
	})
	first := t.PublishedBranch()
	if i := slices.Index(branches, first); i >= 0 && err == nil {
		alone := false
		err = v.eachExclusive(ctx, []string{have["refs/heads/"+first].oid}, have.commitsWithout(t, func(name string) bool { return name == first }), func(string) { alone = true })
		if !alone {
			branches = slices.Delete(branches, i, i+1)
		}
	}
	slices.SortFunc(branches, func(a, b string) int { // Remove must find the first branch in the list
		switch first {
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

// commitsWithout returns the commits of the branches, remote branches and tags in the set. It leaves out the agent's refs, and
// the branches for which the function returns true.
func (s refSet) commitsWithout(t Tree, branch func(name string) bool) []string {
	rest := refSet{}
	for full, r := range s {
		name, ok := strings.CutPrefix(full, "refs/heads/")
		if !strings.HasPrefix(full, AgentRefs(t.UID)) && (!ok || !branch(name)) {
			rest[full] = r
		}
	}
	return rest.oids()
}

// eachExclusive calls the function for each commit in the history of tips that is not in the history of others.
func (v *view) eachExclusive(ctx context.Context, tips, others []string, commit func(oid string)) error {
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
