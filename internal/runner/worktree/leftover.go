package worktree

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/gitfiles"
)

// LeftoverQuery selects the refs that agents have left in a repository: see fleet.PruneQuery.
type LeftoverQuery struct {
	Before  time.Time
	Deleted map[string]string // from the uid of a deleted agent to the label in the names of its branches
	Present []string          // uids of agents whose homes exist, also kept ones
	Tasks   []string          // ids of tasks that had ended by the time Before
	Settled []string          // commits of work that has landed or was abandoned
}

// leftoverRef is a ref that an agent has left.
type leftoverRef struct {
	name  string
	oid   string
	uid   string    // of the agent
	at    time.Time // when its commit was created
	proof fleet.LeftoverProof
}

// AgentsWithRefs returns the uids of the agents that have refs in the repository.
func (g *Git) AgentsWithRefs(ctx context.Context, repository string) (uids []string, err error) {
	// With this format, for-each-ref reads no objects.
	err = g.pipe(ctx, nil, nil, repository, nil, &lineWriter{each: func(line string) {
		name, _ := parseRef(line)
		if uid, _, ok := strings.Cut(strings.TrimPrefix(name, refsPrefix), "/"); ok && (len(uids) == 0 || uids[len(uids)-1] != uid) {
			uids = append(uids, uid)
		}
	}}, "for-each-ref", refFormat, refsPrefix)
	return uids, err
}

// Leftovers returns the leftovers that may be removed. It does not set Project and AgentName.
func (g *Git) Leftovers(ctx context.Context, repository string, q LeftoverQuery) ([]fleet.Leftover, error) {
	found, err := g.leftoverRefs(ctx, repository, q)
	if err != nil {
		return nil, err
	}
	v, err := g.openRepository(repository)
	if err != nil {
		return nil, err
	}
	defer v.close()
	all := []fleet.Leftover{}
	groups := groupRefs(found)
	for i, group := range groups {
		l := group.leftover(repository)
		if l.Size, err = v.sizeOf(ctx, group, groups[:i], groups[i+1:]); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// RemoveLeftovers removes all refs that now have the agent, the kind and the proof of l, a result of Leftovers. If there are none, or
// if a branch among them is checked out, it removes nothing and returns an error.
func (g *Git) RemoveLeftovers(ctx context.Context, repository string, q LeftoverQuery, l fleet.Leftover) error {
	unlock, err := g.lock(ctx, "branches of "+repository)
	if err != nil {
		return err
	}
	defer unlock()
	found, err := g.leftoverRefs(ctx, repository, q)
	if err != nil {
		return err
	}
	for _, group := range groupRefs(found) {
		if current := group.leftover(repository); current.Kind != l.Kind || current.AgentUID != l.AgentUID || current.Proof != l.Proof {
			continue
		}
		var all []refChange
		for _, r := range group {
			branch, ok := strings.CutPrefix(r.name, "refs/heads/")
			if !ok {
				all = append(all, refChange{name: r.name, old: r.oid})
				continue
			}
			used, err := g.checkouts(ctx, repository, branch)
			if err != nil {
				return err
			}
			if len(used) > 0 {
				return used[0].busyError(branch, "it is in use: check out another branch there, and try again")
			}
			all = append(all, refChange{name: r.name, old: r.oid})
		}
		return g.updateRefsWithMessage(ctx, repository, "fleet: pruned", all...)
	}
	return &Error{Message: "the refs have changed since they were listed: list them again"}
}

// leftoverRefs returns the refs of agents that are old enough, with their proofs.
func (g *Git) leftoverRefs(ctx context.Context, repository string, q LeftoverQuery) ([]leftoverRef, error) {
	v, err := g.openRepository(repository)
	if err != nil {
		return nil, err
	}
	defer v.close()
	uidByRefPart, uidByLabel := map[string]string{}, map[string]string{} // of deleted agents
	tasks := map[string]bool{}                                           // ids of q.Tasks, as refPart returns them
	for uid, label := range q.Deleted {
		if !slices.Contains(q.Present, uid) {
			uidByRefPart[refPart(uid)], uidByLabel[label] = uid, uid
		}
	}
	for _, id := range q.Tasks {
		tasks[refPart(id)] = true
	}
	var all []leftoverRef
	var others []string
	const format = "--format=%(objectname)%00%(refname)%00%(symref)%00%(creatordate:unix)"
	err = v.pipe(ctx, nil, &lineWriter{each: func(line string) {
		f := strings.Split(line, "\x00")
		if len(f) != 4 || !gitfiles.IsOID(f[0]) || f[2] != "" {
			return
		}
		r := leftoverRef{name: f[1], oid: f[0]}
		if seconds, err := strconv.ParseInt(f[3], 10, 64); err == nil {
			r.at = time.Unix(seconds, 0).UTC()
		}
		branch, isBranch := strings.CutPrefix(r.name, "refs/heads/")
		label, hasLabel := agentLabel(branch)
		rest, isAgentRef := strings.CutPrefix(r.name, refsPrefix)
		uid, name, _ := strings.Cut(rest, "/")
		isLeftover := false
		switch {
		case isAgentRef && uidByRefPart[uid] != "":
			r.uid, isLeftover = uidByRefPart[uid], true
		case isAgentRef:
			r.uid, isLeftover = uid, isOfTask(name, tasks)
		case isBranch && hasLabel:
			r.uid = agentOfBranch(label, uidByLabel)
			isLeftover = r.uid != ""
		default:
			others = append(others, r.oid)
		}
		if isLeftover {
			all = append(all, r)
		}
	}}, "for-each-ref", format, "refs/heads", "refs/tags", "refs/remotes", refsPrefix)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r leftoverRef) bool { return !r.at.Before(q.Before) })
	return all, v.prove(ctx, all, others, q.Settled)
}

// prove sets the proof of each ref. others are the commits of all other refs of the repository, and settled those of work that has
// landed or was abandoned.
func (v *view) prove(ctx context.Context, all []leftoverRef, others, settled []string) error {
	tips := map[string]fleet.LeftoverProof{}
	for _, r := range all {
		tips[r.oid] = fleet.LeftoverElsewhere
	}
	settled = slices.DeleteFunc(slices.Clone(settled), func(oid string) bool { return !gitfiles.IsOID(oid) })
	known, err := v.existingObjects(ctx, settled)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		others []string
		proof  fleet.LeftoverProof
	}{{others, fleet.LeftoverSettled}, {slices.Concat(others, known), fleet.LeftoverUnproved}} {
		err := v.eachCommitExcept(ctx, slices.Sorted(maps.Keys(tips)), step.others, func(oid string) {
			if _, tip := tips[oid]; tip {
				tips[oid] = step.proof
			}
		})
		if err != nil {
			return err
		}
	}
	for i := range all {
		all[i].proof = tips[all[i].oid]
	}
	return nil
}

// isOfTask reports whether the ref belongs to one of the tasks. Its name is TASK or TASK.base, or for a later try TASK-N or
// TASK-N.base.
func isOfTask(name string, tasks map[string]bool) bool {
	name = strings.TrimSuffix(name, ".base")
	i := strings.LastIndexByte(name, '-')
	return tasks[name] || i > 0 && tryNumberPattern.MatchString(name[i+1:]) && tasks[name[:i]]
}

// tryNumberPattern matches the number of a try of a task.
var tryNumberPattern = regexp.MustCompile(`^[0-9]{1,3}$`)

// agentLabel returns the part after fleet/ or fleet- in the name of a branch.
func agentLabel(branch string) (label string, ok bool) {
	for _, prefix := range []string{"fleet/", "fleet-"} {
		if label, ok := strings.CutPrefix(branch, prefix); ok {
			return label, true
		}
	}
	return "", false
}

// agentOfBranch returns the uid of the agent of a branch; empty if there is none. label is the part of the branch's name that
// agentLabel returns. It begins with one of the keys of uidByLabel: see refRecord.candidateNames.
func agentOfBranch(label string, uidByLabel map[string]string) string {
	for end := len(label); end > 0; end = strings.LastIndexByte(label[:end], '-') {
		if uid := uidByLabel[label[:end]]; uid != "" {
			return uid
		}
	}
	return ""
}
