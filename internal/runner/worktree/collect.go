package worktree

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// maxRefs limits the number of refs of an agent in the repository, besides those of its tasks.
const maxRefs = 1000

// collect copies the agent's commits, and head, the commit of its HEAD, into the repository. It does not copy files of Git LFS;
// see keepLFS. The agent's branches become branches of the repository. If the repository already has a branch of somebody else
// with the same name, the agent's branch gets another name. Tags, notes, the stash, and branches for which no name is free
// are stored as refs of the agent. collect returns the resulting refs of the repository, and describes what it has left out:
// there may be more than maxRefs refs, or broken ones. The agent's current branch comes first, and then the others by their
// names.
func (g *Git) collect(ctx context.Context, t Tree, v *view, head string) (have refSet, left string, err error) {
	if have, err = g.refs(ctx, t); err != nil {
		return nil, "", err
	}
	k, err := t.readRecord()
	if err != nil {
		return nil, "", err
	}
	changed, left, err := v.changedRefs(ctx, t, have, k, head)
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
		left = leftOut(plural(all-len(changed), "other branch or tag", "other branches and tags"), err.Error())
	}
	refused, err := g.collectRefs(ctx, t, have, k, changed)
	return have, cmp.Or(left, refused), err
}

// changedRefs returns the refs of the agent to collect, and describes what it leaves out.
func (v *view) changedRefs(ctx context.Context, t Tree, have refSet, k *refRecord, head string) (changed map[string]string, left string, err error) {
	changed = map[string]string{}
	tips, room, more := have.oids(), maxRefs-k.storedCount(t, have), 0
	current := strings.TrimPrefix(v.head, "ref: ")
	consider := func(name string, r ref) {
		given := k.Given[name]
		if _, found := slices.BinarySearch(tips, r.oid); r.target != "" || given == r.oid || given != "" && found {
			return // the agent has not changed it, or the repository has its commit
		}
		stored, as := k.isStored(t, have, name)
		switch {
		case as == r.oid:
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
		return changed, leftOut("other branches and tags", err.Error()), nil
	}
	if err != nil {
		return nil, "", err
	}
	detached, err := v.detachedHeads(ctx)
	for _, name := range slices.Sorted(maps.Keys(detached)) {
		consider(name, ref{oid: detached[name]})
	}
	if more > 0 {
		left = leftOut(plural(more, "branch or tag", "branches and tags"), fmt.Sprintf("the repository gets at most %d of an agent", maxRefs))
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

// storedCount returns how many refs the repository has for the agent, besides those of its tasks.
func (k *refRecord) storedCount(t Tree, have refSet) (n int) {
	for _, p := range k.Published {
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

// isStored reports whether the repository has a place for the agent's ref, and returns the object that was collected last.
func (k *refRecord) isStored(t Tree, have refSet, name string) (stored bool, oid string) {
	own, stored := have[AgentRefs(t.UID)+strings.TrimPrefix(name, "refs/")]
	branch, ok := strings.CutPrefix(name, "refs/heads/")
	if !ok {
		return stored, own.oid
	}
	if p, ok := k.Published[branch]; ok {
		return stored || have["refs/heads/"+p.Name].oid != "", p.OID
	}
	return stored, "" // perhaps it can become a branch now
}

// ownRef returns the name under which the repository stores a ref of the agent that is not, or cannot be, one of its branches. An
// agent can remove a ref x that the repository still has, and create a ref x/y. Git cannot have both, so x/y gets another name.
func ownRef(t Tree, have refSet, folders map[string]bool, name string) string {
	own := AgentRefs(t.UID) + strings.TrimPrefix(name, "refs/")
	if folders[own] || have.hasParentRef(own) {
		kind, rest, _ := strings.Cut(strings.TrimPrefix(name, "refs/"), "/")
		own = AgentRefs(t.UID) + kind + "/" + digest(rest)
	}
	return own
}

// refUpdate is an update for a ref of the agent.
type refUpdate struct {
	name string // the agent's name of the ref
	update
	last      publishedBranch // the branch of the repository before the update, if it is one
	hadBranch bool            // whether there is one
}

// collectRefs stores the changed refs, whose objects the repository has. It describes those that the repository cannot take.
func (g *Git) collectRefs(ctx context.Context, t Tree, have refSet, k *refRecord, changed map[string]string) (left string, err error) {
	var all []refUpdate
	names, folders := have.names(), have.folders()
	put := func(u update) {
		have[u.name] = ref{oid: u.oid}
		names.add(u.name) // the next branch must not get the same name
		addFolders(folders, u.name)
	}
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		oid := changed[name]
		if branch, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			last, before := k.Published[branch]
			if u, done := k.publish(t, have, names, branch, oid); done {
				for _, u := range u {
					put(u)
					all = append(all, refUpdate{name, u, last, before})
				}
				continue
			}
		}
		if own := ownRef(t, have, folders, name); have[own].oid != oid {
			put(update{name: own, oid: oid})
			all = append(all, refUpdate{name: name, update: update{name: own, oid: oid}})
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	updates := make([]update, 0, len(all))
	for _, p := range all {
		updates = append(updates, p.update)
	}
	err = g.updateRefs(ctx, t.Repository, updates...)
	if _, ours := errors.AsType[*Error](err); ours && ctx.Err() == nil { // for example, a killed git has left the lock of one
		left, err = g.updateEach(ctx, t, have, k, folders, all)
	}
	if err != nil {
		return "", err
	}
	return left, t.writeRecord(k)
}

// updateEach makes each update for itself. A branch that the repository cannot take becomes a ref of the agent. updateEach
// corrects have and k, and describes the refs that the repository has under no name.
func (g *Git) updateEach(ctx context.Context, t Tree, have refSet, k *refRecord, folders map[string]bool, all []refUpdate) (left string, err error) {
	refused, why := 0, ""
	for _, p := range all {
		err := g.updateRefs(ctx, t.Repository, p.update)
		branch, ok := strings.CutPrefix(p.name, "refs/heads/")
		if err != nil {
			if delete(have, p.update.name); strings.Trim(p.old, "0") != "" {
				have[p.update.name] = ref{oid: p.old}
			}
		}
		if ok && err != nil && p.old != "" { // it is a branch of the repository, see publish
			if k.Published[branch] = p.last; !p.hadBranch {
				delete(k.Published, branch)
			}
			u := update{name: ownRef(t, have, folders, p.name), oid: p.oid}
			if err = g.updateRefs(ctx, t.Repository, u); err == nil {
				have[u.name] = ref{oid: u.oid}
			}
		}
		if _, ours := errors.AsType[*Error](err); err != nil && (!ours || ctx.Err() != nil) {
			return "", err
		}
		if err != nil {
			refused, why = refused+1, err.Error()
		}
	}
	if refused > 0 {
		left = leftOut(plural(refused, "branch or tag", "branches and tags"), why)
	}
	return left, nil
}

// publish returns the updates for a branch of the agent, and whether the repository will have that branch.
func (k *refRecord) publish(t Tree, have refSet, names refNames, branch, oid string) ([]update, bool) {
	last, before := k.Published[branch]
	if before && last.OID == oid {
		return nil, true // the agent has not changed the branch; people may have changed it
	}
	for _, name := range k.names(t, branch) {
		now, there := have["refs/heads/"+name]
		switch {
		case there && now.oid == oid && before:
			k.Published[branch] = publishedBranch{name, oid}
			return nil, true
		case there && (!before || name != last.Name || now.oid != last.OID || now.checkedOut):
			continue // somebody else has changed the branch, or has checked it out
		case !there && !names.free(have, name):
			continue
		}
		k.Published[branch] = publishedBranch{name, oid}
		return []update{{name: "refs/heads/" + name, oid: oid, old: expectedOID(now.oid, len(oid))}}, true
	}
	return nil, false
}

// expectedOID returns the expected value of a ref for an update. It returns zeros if the ref must not exist.
func expectedOID(oid string, size int) string {
	if oid == "" {
		return strings.Repeat("0", size)
	}
	return oid
}

// transfer copies the objects in wants, and all objects that they need, to the repository.
func (g *Git) transfer(ctx context.Context, t Tree, v *view, wants []string, have refSet) error {
	tips, err := v.existingObjects(ctx, have.oids()) // a ref of the repository may be broken
	if err != nil {
		return err
	}
	slices.Sort(wants)
	wants = slices.DeleteFunc(slices.Compact(wants), func(oid string) bool {
		_, found := slices.BinarySearch(tips, oid)
		return found || !oidPattern.MatchString(oid)
	})
	return g.copyObjects(ctx, t.Repository, v, wants, tips)
}

// copyObjects copies the objects in wants, and all objects that they need, from the view to the repository, which has tips. It checks
// the objects, because an agent may have made invalid ones.
func (g *Git) copyObjects(ctx context.Context, repository string, v *view, wants, tips []string) error {
	if len(wants) == 0 {
		return nil
	}
	to, err := g.view(repository, false)
	if err != nil {
		return err
	}
	defer to.close()
	from := *v // making a pack takes longer than other commands, so it gets a longer limit
	from.git, to.git = g.withPackTimeout(), g.withPackTimeout()
	r, w := io.Pipe()
	packed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := from.pipe(ctx, revisions(wants, tips), w, packObjects...)
		_ = w.CloseWithError(err)
		packed <- err
	}()
	err = to.unpack(ctx, r)
	_ = r.CloseWithError(io.ErrClosedPipe)
	if cause := <-packed; cause != nil && err == nil {
		err = cause
	}
	return err
}

// strictCheck configures how objects are checked. The flaws that it ignores are harmless and occur in the history of many
// repositories.
const strictCheck = "--strict=zeroPaddedFilemode=ignore,badTimezone=ignore,missingSpaceBeforeDate=ignore,badFilemode=ignore,missingSpaceBeforeEmail=ignore,missingNameBeforeEmail=ignore"

// maxLoose is the number of objects in a pack up to which the objects are stored as single files.
const maxLoose = 100

// unpack adds the objects of a pack to the view's repository.
func (v *view) unpack(ctx context.Context, pack io.Reader) error {
	const header = 12 // "PACK", version, number of objects
	in := bufio.NewReader(pack)
	begin, err := in.Peek(header)
	if err != nil {
		return err
	}
	args := []string{"index-pack", strictCheck, "--stdin", "--fix-thin"}
	switch n := binary.BigEndian.Uint32(begin[8:]); {
	case !bytes.HasPrefix(begin, []byte("PACK")):
		return &Error{Message: "git did not write a pack with the agent's work"}
	case n == 0:
		_, err := io.Copy(io.Discard, in)
		return err
	case n <= maxLoose && !v.packs:
		args = []string{"unpack-objects", strictCheck, "-q"}
	}
	return v.pipe(ctx, in, io.Discard, args...)
}

// refresh updates the agent's branches, remote branches and tags to the state of the repository. It does not change
// refs that the agent has changed.
func (g *Git) refresh(ctx context.Context, t Tree, have refSet) error {
	k, err := t.readRecord()
	if err != nil {
		return err
	}
	now := have.agentRefs(t.UID)
	for _, p := range k.Published {
		delete(now, "refs/heads/"+p.Name)
	}
	if maps.Equal(now, k.Given) {
		return nil
	}
	var out bytes.Buffer
	as, env := g.agentPolicy(t), []string{"GIT_DIR=" + t.GitDir, "GIT_WORK_TREE=" + t.GitDir} // instead of the agent's core.worktree
	// for-each-ref reads no objects, so git runs no program of the agent.
	err = g.pipe(ctx, as, env, t.GitDir, nil, &limitedWriter{to: &out}, "for-each-ref", refFormat, "refs/heads", "refs/remotes", "refs/tags")
	if out.Len() >= maxOutput && ctx.Err() == nil {
		return &Error{Message: fmt.Sprintf("the agent's branches and tags are more than %d MiB: remove some of them", maxOutput>>20)}
	}
	if err != nil {
		return err
	}
	theirs := parseRefs(out.String())
	taken := theirs.folders()
	var all []update
	for name := range union(now, k.Given) {
		is, oid := theirs[name], now[name]
		switch {
		case is.target != "" || is.checkedOut || is.oid != k.Given[name] && is.oid != oid:
			continue
		case is.oid == "" && (taken[name] || theirs.hasParentRef(name)):
			continue // git cannot have a branch x and a branch x/y
		case is.oid != oid:
			all = append(all, update{name, oid, expectedOID(is.oid, len(oid))})
		}
		if k.Given[name] = oid; oid == "" {
			delete(k.Given, name)
		}
	}
	slices.SortFunc(all, func(a, b update) int { return strings.Compare(a.name, b.name) })
	if len(all) > 0 {
		if err := g.pipe(ctx, as, env, t.GitDir, strings.NewReader(updates(all)), io.Discard, "update-ref", "--no-deref", "--stdin"); err != nil {
			return err
		}
	}
	return t.writeRecord(k)
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
