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
// not at head. left describes the refs that it leaves out; it is empty if there are none.
func (g *Git) collect(ctx context.Context, t Tree, v *view, head string) (have refSet, left string, err error) {
	if have, err = g.refs(ctx, t); err != nil {
		return nil, "", err
	}
	record, err := t.readRecord()
	if err != nil {
		return nil, "", err
	}
	changed, left, err := v.changedRefs(ctx, t, have, record, head)
	if err != nil {
		return nil, "", err
	}
	if err := g.transfer(ctx, t, v, append(slices.Collect(maps.Values(changed)), head), have); err != nil {
		// A broken branch must not prevent collecting the current one.
		all := len(changed)
		maps.DeleteFunc(changed, func(_, oid string) bool { return oid != head })
		if ctx.Err() != nil || head == "" || all == len(changed) || g.transfer(ctx, t, v, []string{head}, have) != nil {
			return nil, "", err
		}
		left = describeLeftOut(plural(all-len(changed), "other branch or tag", "other branches and tags"), err.Error())
	}
	refused, err := g.collectRefs(ctx, t, have, record, changed)
	return have, cmp.Or(left, refused), err
}

// changedRefs returns the refs of the agent to collect, by name. left describes the refs that it leaves out; it is empty if there are
// none.
func (v *view) changedRefs(ctx context.Context, t Tree, have refSet, record *refRecord, head string) (changed map[string]string, left string, err error) {
	changed = map[string]string{}
	tips, room, more := have.oids(), maxRefs-record.storedCount(t, have), 0
	current := strings.TrimPrefix(v.head, "ref: ")
	consider := func(name string, r ref) {
		given := record.FromRepository[name]
		if _, found := slices.BinarySearch(tips, r.oid); r.target != "" || given == r.oid || given != "" && found {
			return // a symbolic ref, a ref that the agent has not changed, or one that it has moved to a commit of another ref
		}
		stored, collected := record.isStored(t, have, name)
		switch {
		case collected == r.oid:
			return
		case !stored && room <= 0 && name != current:
			more++
			return
		case !stored:
			room--
		}
		changed[name] = r.oid
	}
	if current != v.head && head != "" {
		consider(current, ref{oid: head})
	}
	err = v.eachRef(ctx, []string{"refs/heads", "refs/tags", "refs/stash", "refs/notes"}, func(name string, r ref) {
		if name != current || head == "" {
			consider(name, r)
		}
	})
	if _, ours := errors.AsType[*Error](err); ours && ctx.Err() == nil && head != "" {
		return changed, describeLeftOut("other branches and tags", err.Error()), nil
	}
	if err != nil {
		return nil, "", err
	}
	detached, err := v.detachedHeads(ctx)
	for _, name := range slices.Sorted(maps.Keys(detached)) {
		consider(name, ref{oid: detached[name]})
	}
	if more > 0 {
		left = describeLeftOut(plural(more, "branch or tag", "branches and tags"), fmt.Sprintf("the repository gets at most %d of an agent", maxRefs))
	}
	return changed, left, err
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
func (r *refRecord) storedCount(t Tree, have refSet) (n int) {
	for _, p := range r.Published {
		if have["refs/heads/"+p.Name].oid != "" {
			n++
		}
	}
	for name := range have {
		if rest, ok := strings.CutPrefix(name, AgentRefs(t.UID)); ok && (strings.Contains(rest, "/") || rest == "stash") {
			n++
		}
	}
	return n
}

// isStored reports whether the repository already stores the agent's ref, and returns the object that was collected last.
func (r *refRecord) isStored(t Tree, have refSet, name string) (stored bool, oid string) {
	own, stored := have[AgentRefs(t.UID)+strings.TrimPrefix(name, "refs/")]
	branch, ok := strings.CutPrefix(name, "refs/heads/")
	if !ok {
		return stored, own.oid
	}
	if p, ok := r.Published[branch]; ok {
		return stored || have["refs/heads/"+p.Name].oid != "", p.OID
	}
	return stored, "" // the agent's ref may be able to become a branch now
}

// ownRef returns the name under which the repository stores a ref of the agent that is not a branch, or whose name is not free. An
// agent can remove a ref x that the repository still has, and create a ref x/y. Git cannot have both, so x/y gets another name.
func ownRef(t Tree, have refSet, folders map[string]bool, name string) string {
	own := AgentRefs(t.UID) + strings.TrimPrefix(name, "refs/")
	if folders[own] || have.hasParentRef(own) {
		kind, rest, _ := strings.Cut(strings.TrimPrefix(name, "refs/"), "/")
		own = AgentRefs(t.UID) + kind + "/" + digest(rest)
	}
	return own
}

// refresh updates the agent's branches, remote branches and tags to the state of the repository. It does not change
// refs that the agent has changed or checked out.
func (g *Git) refresh(ctx context.Context, t Tree, have refSet) error {
	record, err := t.readRecord()
	if err != nil {
		return err
	}
	now := have.refsForAgent(t.UID)
	for _, p := range record.Published {
		delete(now, "refs/heads/"+p.Name)
	}
	if maps.Equal(now, record.FromRepository) {
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
	theirs := parseRefs(out.String())
	taken := theirs.folders()
	var all []refChange
	for name := range union(now, record.FromRepository) {
		is, oid := theirs[name], now[name]
		switch {
		case is.target != "" || is.checkedOut || is.oid != record.FromRepository[name] && is.oid != oid:
			continue
		case is.oid == "" && (taken[name] || theirs.hasParentRef(name)):
			continue // git cannot have a branch x and a branch x/y
		case is.oid != oid:
			all = append(all, refChange{name, oid, expectedOID(is.oid, len(oid))})
		}
		if record.FromRepository[name] = oid; oid == "" {
			delete(record.FromRepository, name)
		}
	}
	slices.SortFunc(all, func(a, b refChange) int { return strings.Compare(a.name, b.name) })
	if len(all) > 0 {
		if err := g.pipe(ctx, policy, env, t.GitDir, strings.NewReader(refChangeInput(all)), io.Discard, "update-ref", "--no-deref", "--stdin"); err != nil {
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
