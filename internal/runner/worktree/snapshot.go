package worktree

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"fleet/internal/fleet"
)

// Begin records the commit at which a task starts, and updates the agent's refs from the repository. Uncommitted changes
// that are in the agent's last snapshot do not count as changes of this task, if HEAD has not moved since then.
func (g *Git) Begin(ctx context.Context, t Tree, taskID string) error {
	base, err := t.repair(ctx)
	if err != nil {
		return err
	}
	refs, err := g.refs(ctx, t)
	if err != nil {
		return err
	}
	if t.hasOwnGitDir() && base == "" {
		base, err = g.headOf(ctx, t)
	} else if !t.hasOwnGitDir() {
		// rev-parse reads no objects here, so the repository's own configuration does no harm.
		base, err = g.run(ctx, t.Dir, "rev-parse", "--verify", "HEAD")
	}
	if err != nil {
		return err
	}
	if refs[agentRefPrefix(t.UID)+"last.head"].oid == base {
		base = refs[agentRefPrefix(t.UID)+"last"].oid
	}
	start := refChange{name: t.taskRef(taskID) + ".base", oid: base}
	err = g.updateRefs(ctx, t.Repository, start)
	if !t.hasOwnGitDir() {
		return err
	}
	if err != nil { // the repository does not have the commit yet
		if refs, err = g.collectWork(ctx, t, base); err != nil {
			return err
		}
		if err := g.updateRefs(ctx, t.Repository, start); err != nil {
			return err
		}
	}
	return g.refresh(ctx, t, refs)
}

// collectWork collects the agent's commits and refs, like collect, with a temporary view. It returns the refs of the repository.
func (g *Git) collectWork(ctx context.Context, t Tree, head string) (refSet, error) {
	v, err := g.openAgentTree(ctx, t)
	if err != nil {
		return nil, err
	}
	defer v.close()
	refs, _, err := g.collect(ctx, t, v, head)
	return refs, err
}

// openTree returns a view of the tree. The tree need not have its own git directory.
func (g *Git) openTree(ctx context.Context, t Tree) (*view, error) {
	if t.hasOwnGitDir() {
		return g.openAgentTree(ctx, t)
	}
	return g.openWorkingTree(t.Dir)
}

// Snapshot stores the tree, with uncommitted changes, under the task's ref in the repository. It returns the changes of the
// task. Snapshot stores the agent's commits before it looks at a file, so the state of the working tree cannot prevent
// that. LeftOut of the result describes the files that could not be stored, with the reasons. Snapshot does not change the
// agent's index. A repeated call copies only objects that the repository lacks.
func (g *Git) Snapshot(ctx context.Context, t Tree, taskID string) (*fleet.Changes, error) {
	if problem := t.Problem(); problem != "" && !t.hasOwnGitDir() {
		return nil, &Error{Message: problem}
	}
	v, err := g.openTree(ctx, t)
	if err != nil {
		return nil, err
	}
	defer v.close()
	head, headTree := v.headCommit(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c := &fleet.Changes{Ref: t.taskRef(taskID), Commit: head}
	refs, err := g.keepBranches(ctx, t, v, c)
	if err != nil {
		return nil, err
	}
	c.Base = refs[c.Ref+".base"].oid
	if err := g.keepHead(ctx, t, v, c); err != nil {
		return nil, err
	}
	if err := g.keepFiles(ctx, t, v, c, headTree, refs); err != nil {
		return nil, err
	}
	c.Base = cmp.Or(c.Base, head, c.Commit)
	if c.Commit != "" {
		if err := g.updateRefs(ctx, t.Repository, refChange{name: c.Ref, oid: c.Commit}, refChange{name: agentRefPrefix(t.UID) + "last", oid: c.Commit}); err != nil {
			return nil, err
		}
	}
	if t.hasOwnGitDir() {
		if err := t.keepLFS(ctx, v, c); err != nil {
			return nil, err
		}
	}
	if c.Base == c.Commit {
		return c, nil
	}
	err = v.addDifferences(ctx, c)
	if e, isGitError := errors.AsType[*Error](err); isGitError && ctx.Err() == nil { // the commits are safe
		c.LeftOut, err = append(c.LeftOut, describeLeftOut("the list of changed files", e.Message)), nil
	}
	return c, err
}

// keepBranches collects the agent's commits and refs, and sets Branch of c. It adds refs that could not be stored to LeftOut of c. It
// returns the refs of the repository.
func (g *Git) keepBranches(ctx context.Context, t Tree, v *view, c *fleet.Changes) (refSet, error) {
	branch, ok := strings.CutPrefix(v.headContent, "ref: refs/heads/")
	if !ok {
		branch = ""
	}
	if !t.hasOwnGitDir() {
		c.Branch = branch
		return g.refs(ctx, t)
	}
	refs, leftOut, err := g.collect(ctx, t, v, c.Commit)
	if err != nil {
		return nil, err
	}
	if leftOut != "" {
		c.LeftOut = append(c.LeftOut, leftOut)
	}
	c.Branch, err = t.branchOf(refs, branch, c.Commit)
	return refs, err
}

// keepHead stores the commit of HEAD, if there is one, under the refs of the agent, and sets Commits and Pushed of c.
func (g *Git) keepHead(ctx context.Context, t Tree, v *view, c *fleet.Changes) (err error) {
	head := c.Commit
	if head == "" {
		return nil
	}
	if err := g.updateRefs(ctx, t.Repository, refChange{name: agentRefPrefix(t.UID) + "last.head", oid: head}, refChange{name: c.Ref, oid: head}); err != nil {
		return err
	}
	if c.Base != "" && head != c.Base {
		if c.Commits, err = v.countCommits(ctx, head, "--not", c.Base); err != nil {
			return err
		}
	}
	ahead, err := v.run(ctx, "rev-list", "--max-count=1", head, "--not", "--ignore-missing", "--remotes")
	if _, isGitError := errors.AsType[*Error](err); err != nil && (!isGitError || ctx.Err() != nil) {
		return err
	}
	c.Pushed = err == nil && ahead == "" // git fails if the agent has damaged its refs
	return nil
}

// keepFiles stores the uncommitted files of the tree in the repository, and changes c.Commit from the commit of HEAD to a
// commit with these files. If git cannot read the files at all, keepFiles adds the reason to c and does not change c.Commit.
func (g *Git) keepFiles(ctx context.Context, t Tree, v *view, c *fleet.Changes, headTree string, refs refSet) error {
	head := c.Commit
	var err error
	if v.dir != t.Dir {
		err = &Error{Message: "the directory " + t.Dir + " no longer exists"}
	}
	if err == nil {
		err = v.usePrivateIndex(ctx, head)
	}
	if err == nil {
		var leftOut []string
		leftOut, err = v.stageFiles(ctx, head)
		c.LeftOut, c.Dirty = append(c.LeftOut, leftOut...), len(leftOut) > 0
	}
	if err == nil {
		err = v.createCommit(ctx, c, head, headTree)
	}
	if err == nil && t.hasOwnGitDir() && c.Commit != head {
		err = g.copyWork(ctx, t, v, []string{c.Commit}, refs)
	}
	if _, isGitError := errors.AsType[*Error](err); !isGitError || ctx.Err() != nil {
		return err
	}
	c.Commit, c.Dirty = head, true
	c.LeftOut = append(c.LeftOut, describeLeftOut("uncommitted files", err.Error()))
	return nil
}

// describeLeftOut returns a text for people about work that a snapshot does not have.
func describeLeftOut(what, why string) string { return what + " (" + firstLine(why) + ")" }

// firstLine returns the first line of a message of git, shortened to maxReason characters.
func firstLine(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	for _, prefix := range []string{"fatal: ", "error: "} {
		line = strings.TrimPrefix(line, prefix)
	}
	return fleet.Shorten(line, maxReason)
}

// maxReason limits texts of git and of agents in a message for people, in characters.
const maxReason = 200

// createCommit creates a commit of the index and records it in c. If the index equals headTree, the tree of head, it records
// head instead.
func (v *view) createCommit(ctx context.Context, c *fleet.Changes, head, headTree string) error {
	tree, err := v.run(ctx, "write-tree")
	if err != nil {
		return err
	}
	if tree == headTree {
		c.Commit = head
		return nil
	}
	args := []string{"commit-tree", tree, "-m", "Working tree at the end of a task"}
	if head != "" {
		args = append(args, "-p", head)
	}
	c.Dirty = true
	c.Commit, err = v.run(ctx, args...)
	return err
}
