package worktree

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// maxRefs limits the number of refs of an agent in the repository, besides those of its tasks.
const maxRefs = 1000

// collect copies the agent's commits, and head, the commit of its HEAD, into the repository. It does not copy files of Git
// LFS; see keepLFS. The agent's branches become branches of the repository. If the repository already has a branch of somebody
// else with the same name, the agent's branch gets another name. Tags, notes, the stash, and branches for which no name is
// free are stored as refs of the agent. collect returns the resulting refs of the repository. It collects the agent's current
// branch first, then the other refs by name, and leaves out refs beyond maxRefs. If a ref is broken, it leaves out all refs that are
// not at head. leftOut describes the refs that it leaves out; it is empty if there are none.
func (g *Git) collect(ctx context.Context, t Tree, v *view, head string) (refs refSet, leftOut string, err error) {
	if refs, err = g.refs(ctx, t); err != nil {
		return nil, "", err
	}
	record, err := t.readRecord()
	if err != nil {
		return nil, "", err
	}
	changed, leftOut, err := v.changedRefs(ctx, t, refs, record, head)
	if err != nil {
		return nil, "", err
	}
	if err := g.copyWork(ctx, t, v, append(slices.Collect(maps.Values(changed)), head), refs); err != nil {
		// A broken branch must not prevent collecting the current one.
		all := len(changed)
		maps.DeleteFunc(changed, func(_, oid string) bool { return oid != head })
		if ctx.Err() != nil || head == "" || all == len(changed) || g.copyWork(ctx, t, v, []string{head}, refs) != nil {
			return nil, "", err
		}
		leftOut = describeLeftOut(plural(all-len(changed), "other branch or tag", "other branches and tags"), err.Error())
	}
	refused, err := g.collectRefs(ctx, t, refs, record, changed)
	return refs, cmp.Or(leftOut, refused), err
}

// changedRefs returns the refs of the agent to collect, by name. leftOut describes the refs that it leaves out; it is empty if there are
// none.
func (v *view) changedRefs(ctx context.Context, t Tree, refs refSet, record *refRecord, head string) (changed map[string]string, leftOut string, err error) {
	changed = map[string]string{}
	tips, room, excess := refs.oids(), maxRefs-record.storedCount(t, refs), 0
	current := strings.TrimPrefix(v.headContent, "ref: ")
	consider := func(name string, r ref) {
		received := record.FromRepository[name]
		if _, found := slices.BinarySearch(tips, r.oid); r.target != "" || received == r.oid || received != "" && found {
			return // a symbolic ref, a ref that the agent has not changed, or one that it has moved to a commit of another ref
		}
		stored, collected := record.findStored(t, refs, name)
		switch {
		case collected == r.oid:
			return
		case !stored && room <= 0 && name != current:
			excess++
			return
		case !stored:
			room--
		}
		changed[name] = r.oid
	}
	if current != v.headContent && head != "" {
		consider(current, ref{oid: head})
	}
	err = v.eachRef(ctx, []string{"refs/heads", "refs/tags", "refs/stash", "refs/notes"}, func(name string, r ref) {
		if name != current || head == "" {
			consider(name, r)
		}
	})
	if _, isGitError := errors.AsType[*Error](err); isGitError && ctx.Err() == nil && head != "" {
		return changed, describeLeftOut("other branches and tags", err.Error()), nil
	}
	if err != nil {
		return nil, "", err
	}
	detached, err := v.detachedHeads(ctx)
	for _, name := range slices.Sorted(maps.Keys(detached)) {
		consider(name, ref{oid: detached[name]})
	}
	if excess > 0 {
		leftOut = describeLeftOut(plural(excess, "branch or tag", "branches and tags"), fmt.Sprintf("the repository gets at most %d of an agent", maxRefs))
	}
	return changed, leftOut, err
}

// eachRef calls the function for each ref that for-each-ref lists for the patterns, sorted by name. The list can be long.
func (v *view) eachRef(ctx context.Context, patterns []string, each func(name string, r ref)) error {
	return v.pipe(ctx, nil, &lineWriter{each: func(line string) {
		if name, r := parseRef(line); name != "" {
			each(name, r)
		}
	}}, append([]string{"for-each-ref", refFormat}, patterns...)...)
}

// storedCount returns the number of refs that the repository has for the agent, besides those of its tasks.
func (r *refRecord) storedCount(t Tree, refs refSet) (n int) {
	for _, p := range r.Published {
		if refs["refs/heads/"+p.Name].oid != "" {
			n++
		}
	}
	for name := range refs {
		if rest, ok := strings.CutPrefix(name, agentRefPrefix(t.UID)); ok && (strings.Contains(rest, "/") || rest == "stash") {
			n++
		}
	}
	return n
}

// findStored reports whether the repository already stores the agent's ref, and returns the object that was collected last, if known.
func (r *refRecord) findStored(t Tree, refs refSet, name string) (stored bool, oid string) {
	agentRef, stored := refs[agentRefPrefix(t.UID)+strings.TrimPrefix(name, "refs/")]
	branch, ok := strings.CutPrefix(name, "refs/heads/")
	if !ok {
		return stored, agentRef.oid
	}
	if p, ok := r.Published[branch]; ok {
		return stored || refs["refs/heads/"+p.Name].oid != "", p.OID
	}
	return stored, "" // a name for a branch may have become free
}

// agentRefName returns the name under which the repository stores a ref of the agent that is not a branch, or whose name is not free. An
// agent can remove a ref x that the repository still has, and create a ref x/y. Git cannot have both, so x/y gets another name.
func agentRefName(t Tree, refs refSet, folders map[string]bool, name string) string {
	stored := agentRefPrefix(t.UID) + strings.TrimPrefix(name, "refs/")
	if folders[stored] || refs.hasParentRef(stored) {
		kind, rest, _ := strings.Cut(strings.TrimPrefix(name, "refs/"), "/")
		stored = agentRefPrefix(t.UID) + kind + "/" + refDigest(rest)
	}
	return stored
}

// refresh updates the agent's branches, remote branches and tags to the state of the repository. It does not change
// refs that the agent has changed or checked out.
func (g *Git) refresh(ctx context.Context, t Tree, refs refSet) error {
	record, err := t.readRecord()
	if err != nil {
		return err
	}
	repositoryRefs := refs.refsForAgent(t.UID)
	for _, p := range record.Published {
		delete(repositoryRefs, "refs/heads/"+p.Name)
	}
	if maps.Equal(repositoryRefs, record.FromRepository) {
		return nil
	}
	var out bytes.Buffer
	policy, env := g.agentPolicy(t), []string{"GIT_DIR=" + t.GitDir, "GIT_WORK_TREE=" + t.GitDir} // instead of the agent's core.worktree
	// for-each-ref reads no objects, so git runs no program of the agent.
	err = g.pipe(ctx, policy, env, t.GitDir, nil, &limitedWriter{to: &out}, "for-each-ref", refFormat, "refs/heads", "refs/remotes", "refs/tags")
	if out.Len() >= maxOutput && ctx.Err() == nil {
		return &Error{Message: fmt.Sprintf("the agent's branches and tags are more than %d MiB: remove some of them", maxOutput>>20)}
	}
	if err != nil {
		return err
	}
	agentRefs := parseRefs(out.String())
	folders := agentRefs.folders()
	var changes []refChange
	for name := range union(repositoryRefs, record.FromRepository) {
		agentRef, oid := agentRefs[name], repositoryRefs[name]
		switch {
		case agentRef.target != "" || agentRef.checkedOut || agentRef.oid != record.FromRepository[name] && agentRef.oid != oid:
			continue
		case agentRef.oid == "" && (folders[name] || agentRefs.hasParentRef(name)):
			continue // git cannot have a branch x and a branch x/y
		case agentRef.oid != oid:
			changes = append(changes, refChange{name, oid, expectedOID(agentRef.oid, len(oid))})
		}
		if record.FromRepository[name] = oid; oid == "" {
			delete(record.FromRepository, name)
		}
	}
	slices.SortFunc(changes, func(a, b refChange) int { return strings.Compare(a.name, b.name) })
	if len(changes) > 0 {
		if err := g.pipe(ctx, policy, env, t.GitDir, strings.NewReader(refChangeInput(changes)), io.Discard, "update-ref", "--no-deref", "--stdin"); err != nil {
			return err
		}
	}
	return t.writeRecord(record)
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
