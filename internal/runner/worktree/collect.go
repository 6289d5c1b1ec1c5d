package worktree

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"strings"
)

// maxRefs is how many refs of its own an agent may have in the repository.
const maxRefs = 1000

// collect takes the agent's commits into the repository, and the objects that wants names. The agent's branches become branches of the repository, unless a branch that is not the
// agent's has the name: then they get another name. Its tags and stash are kept as refs of the agent. It returns the refs
// of the repository as they are then.
func (g *Git) collect(ctx context.Context, t Tree, v *view, wants ...string) (refSet, error) {
	have, err := g.refs(ctx, t)
	if err != nil {
		return nil, err
	}
	k, err := t.known()
	if err != nil {
		return nil, err
	}
	out, err := v.run(ctx, "for-each-ref", refFormat, "refs/heads", "refs/tags", "refs/stash")
	if err != nil {
		return nil, err
	}
	changed := map[string]string{}
	tips := have.oids()
	for name, r := range parseRefs(out + "\n") {
		given := k.Given[name]
		if _, found := slices.BinarySearch(tips, r.oid); r.to != "" || given == r.oid || given != "" && found {
			continue // as the repository has it
		}
		if len(changed) < maxRefs || name == "refs/heads/"+t.Branch {
			changed[name] = r.oid
		}
	}
	needed := slices.Clone(wants)
	for _, oid := range changed {
		wants = append(wants, oid)
	}
	if err := g.transfer(ctx, t, v, wants, have); err != nil {
		// A broken branch keeps nothing else from being collected.
		maps.DeleteFunc(changed, func(_, oid string) bool { return !slices.Contains(needed, oid) })
		if ctx.Err() != nil || g.transfer(ctx, t, v, needed, have) != nil || len(needed) == 0 {
			return nil, err
		}
	}
	if err := t.collectLFS(); err != nil {
		return nil, err
	}
	var keep, publish []update
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		oid := changed[name]
		branch, ok := strings.CutPrefix(name, "refs/heads/")
		if ok {
			if u, done := k.publish(t, have, branch, oid); done {
				publish = append(publish, u...)
				continue
			}
		}
		if own := AgentRefs(t.UID) + strings.TrimPrefix(name, "refs/"); have[own].oid != oid {
			keep = append(keep, update{name: own, oid: oid})
			have[own] = ref{oid: oid}
		}
	}
	if err := g.updateRefs(ctx, t.Repository, keep...); err != nil {
		return nil, err
	}
	if len(publish) == 0 {
		return have, nil
	}
	if err := g.updateRefs(ctx, t.Repository, publish...); err != nil {
		return nil, err
	}
	for _, u := range publish {
		have[u.name] = ref{oid: u.oid}
	}
	return have, t.learn(k)
}

// publish says how the repository gets a branch of the agent, and whether it does.
func (k *known) publish(t Tree, have refSet, branch, oid string) ([]update, bool) {
	last, before := k.Published[branch]
	if before && last.OID == oid {
		return nil, true // what people did with it since is theirs
	}
	other := t.Branch + "-" + strings.ReplaceAll(branch, "/", "-")
	if branch == t.Branch {
		other = t.Branch + "-2"
	}
	for _, name := range []string{last.Name, branch, other} {
		now, there := have["refs/heads/"+name]
		switch {
		case name == "":
			continue
		case there && now.oid == oid && before:
			k.Published[branch] = published{name, oid}
			return nil, true
		case there && (!before || name != last.Name || now.oid != last.OID || now.occupied): // somebody else's, or at work there
			continue
		case !there && !have.free(name):
			continue
		}
		k.Published[branch] = published{name, oid}
		return []update{{name: "refs/heads/" + name, oid: oid, old: old(now.oid, len(oid))}}, true
	}
	return nil, false
}

// old returns the value that a ref must have to be updated; zeros if it must not be there.
func old(oid string, size int) string {
	if oid == "" {
		return strings.Repeat("0", size)
	}
	return oid
}

// transfer copies the objects to the repository, with all that they need. It checks them: an agent may have made them.
func (g *Git) transfer(ctx context.Context, t Tree, v *view, wants []string, have refSet) error {
	tips := have.oids()
	slices.Sort(wants)
	wants = slices.DeleteFunc(slices.Compact(wants), func(oid string) bool {
		_, found := slices.BinarySearch(tips, oid)
		return found || !oidPattern.MatchString(oid)
	})
	if len(wants) == 0 {
		return nil
	}
	to, err := g.view(t.Repository, false)
	if err != nil {
		return err
	}
	defer to.close()
	args := []string{"pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "--quiet"}
	revs := strings.Join(wants, "\n") + "\n"
	for _, tip := range tips {
		revs += "^" + tip + "\n"
	}
	from := *v // a pack takes longer than a look
	from.git, to.git = g.patient(), g.patient()
	r, w := io.Pipe()
	packed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := from.pipe(ctx, strings.NewReader(revs), w, args...)
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

// strict is how objects are checked. The flaws that are left out do no harm and are in the history of many repositories.
const strict = "--strict=zeroPaddedFilemode=ignore,badTimezone=ignore,missingSpaceBeforeDate=ignore,badFilemode=ignore,missingSpaceBeforeEmail=ignore,missingNameBeforeEmail=ignore"

// maxLoose is how many objects of a pack are stored each for itself.
const maxLoose = 100

// unpack adds the objects of a pack to the repository of the view.
func (v *view) unpack(ctx context.Context, pack io.Reader) error {
	const header = 12 // "PACK", version, number of objects
	in := bufio.NewReader(pack)
	begin, err := in.Peek(header)
	if err != nil {
		return err
	}
	args := []string{"index-pack", strict, "--stdin", "--fix-thin"}
	switch n := binary.BigEndian.Uint32(begin[8:]); {
	case !bytes.HasPrefix(begin, []byte("PACK")):
		return &Error{Words: "git made no pack of the agent's work"}
	case n == 0:
		_, err := io.Copy(io.Discard, in)
		return err
	case n <= maxLoose:
		args = []string{"unpack-objects", strict, "-q"}
	}
	return v.pipe(ctx, in, io.Discard, args...)
}

// refresh gives the agent the branches, remote branches and tags of the repository as they are now. Those that the agent
// has changed stay as they are.
func (g *Git) refresh(ctx context.Context, t Tree, have refSet) error {
	k, err := t.known()
	if err != nil {
		return err
	}
	now := have.given(t.UID)
	for _, p := range k.Published {
		delete(now, "refs/heads/"+p.Name)
	}
	if maps.Equal(now, k.Given) {
		return nil
	}
	var out bytes.Buffer
	as, env := g.asAgent(t), []string{"GIT_DIR=" + t.GitDir}
	// It does not look at objects, and so runs no program.
	if err := g.pipe(ctx, as, env, t.GitDir, nil, &out, "for-each-ref", refFormat, "refs/heads", "refs/remotes", "refs/tags"); err != nil {
		return err
	}
	theirs := parseRefs(out.String())
	var all []update
	for name := range union(now, k.Given) {
		is, oid := theirs[name], now[name]
		switch {
		case is.to != "" || is.occupied || is.oid != k.Given[name] && is.oid != oid:
			continue
		case is.oid != oid:
			all = append(all, update{name, oid, old(is.oid, len(oid))})
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
	return t.learn(k)
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
