package worktree

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxSuffix is the highest number that is appended to a branch's name to find a free name.
const maxSuffix = 9

// PublishedBranch returns the branch of the repository that has the commits of the agent's branch. It differs from
// t.Branch if somebody else has changed t.Branch in the repository, has checked it out there, or has created a branch that prevents
// this name.
func (t Tree) PublishedBranch() string {
	if p, ok := t.readPublished()[t.Branch]; ok {
		return p.Name
	}
	return t.Branch
}

// publishedNames returns the names of the branches of the repository that are the agent's, sorted. Some of them may not exist.
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
	stem := t.Branch + "-" + strings.ReplaceAll(branch, "/", "-")
	all := []string{branch, stem}
	if branch == t.Branch {
		stem, all = t.Branch, []string{branch}
	}
	for n := 2; n <= maxSuffix; n++ {
		all = append(all, stem+"-"+strconv.Itoa(n))
	}
	// Git cannot have fleet/x and fleet, which somebody may have created meanwhile.
	all = append(all, strings.ReplaceAll(stem, "/", "-"))
	if last := r.Published[branch].Name; last != "" {
		all = slices.Insert(all, 0, last)
	}
	return all
}

// branchOf returns where people find the commit head of the agent's branch: a branch of the repository or, if no
// name was free, the full name of a ref of the agent. refs are the refs of the repository after the branch was
// collected. If no branch has the commit, the result is the published branch, which somebody has moved since, or empty if that
// branch does not exist.
func (t Tree) branchOf(refs refSet, branch, head string) (string, error) {
	record, err := t.readRecord()
	if err != nil || branch == "" {
		return "", err
	}
	hasHead := func(name string) bool { return name != "" && head != "" && refs["refs/heads/"+name].oid == head }
	published := record.Published[branch].Name
	for _, name := range []string{published, branch} {
		if hasHead(name) {
			return name, nil
		}
	}
	for _, p := range slices.SortedFunc(maps.Values(record.Published), func(a, b publishedBranch) int { return strings.Compare(a.Name, b.Name) }) {
		if hasHead(p.Name) {
			return p.Name, nil
		}
	}
	if agentRef := agentRefPrefix(t.UID) + "heads/" + branch; head != "" && refs[agentRef].oid == head {
		return agentRef, nil
	}
	for _, full := range slices.Sorted(maps.Keys(refs)) {
		if name, ok := strings.CutPrefix(full, "refs/heads/"); ok && hasHead(name) {
			return name, nil
		}
	}
	if refs["refs/heads/"+published].oid != "" {
		return published, nil // somebody has moved the branch since it was collected
	}
	return "", nil
}
