package worktree

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"fleet/internal/fleet"
	"fleet/internal/runner/gitfiles"
)

// draft is a view of a repository in which commits are made. They stay in the view until store copies them into the repository, so a
// prediction leaves nothing there.
//
// Agents wrote the files that a draft merges, and .gitattributes can name filters and merge drivers. git finds the programs of filters
// and merge drivers only in its configuration. The configuration of a draft has only plain settings of the repository, and none of the
// user or the system. So no program runs. The attributes themselves have their usual effect: for example, merge=union merges a file as
// "git merge" would.
type draft struct {
	*view
	repository string

	mu                sync.Mutex      // protects the fields below, and the working tree with the attributes
	visited           map[string]bool // directories whose attributes the draft has
	changesAttributes bool            // one of the commits given to copyAttributes changes attributes
}

// isolatedEnv are variables that make git ignore the configuration of the user and of the system, and take paths literally.
var isolatedEnv = []string{"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_LITERAL_PATHSPECS=1"}

// openDraft returns a draft for the repository. The caller must close it. It returns CHANGES_NOT_FOUND if the repository lacks one of the
// commits.
func (g *Git) openDraft(ctx context.Context, repository string, commits ...string) (*draft, error) {
	common := commonDir(repository)
	if common == "" {
		return nil, noRepositoryError(repository)
	}
	commonInfo, err := gitfiles.Read(common)
	if err != nil {
		return nil, err
	}
	v, err := withFallbackDir(common, g.temp, func(temp string) (*view, error) {
		v, err := g.newView(temp, repository, common, false)
		if err != nil {
			return nil, err
		}
		if err := v.fillDraft(common, commonInfo); err != nil {
			v.close()
			return nil, fmt.Errorf("draft of %s: %w", repository, err)
		}
		return v, nil
	})
	if err != nil {
		return nil, err
	}
	d := &draft{view: v, repository: repository, visited: map[string]bool{}}
	if err := d.requireCommits(ctx, commits); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// fillDraft makes the view a draft of the repository. It adds access to the objects of the repository, and an empty working tree.
func (v *view) fillDraft(common string, commonInfo gitfiles.Info) error {
	objects := filepath.Join(common, "objects")
	v.policy.Read = slices.Concat(v.policy.Read, []string{common}, withAlternates(objects))
	v.policy.Override = ownerOf(common) != nil
	v.dir = filepath.Join(v.gitDir, "tree")
	v.env = slices.Concat(v.env, isolatedEnv, []string{"GIT_WORK_TREE=" + v.dir})
	for _, dir := range []string{v.dir, filepath.Join(v.gitDir, "objects", "pack"), filepath.Join(v.gitDir, "refs", "heads")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := writeFile(filepath.Join(v.gitDir, "objects", "info", "alternates"), formatAlternates(withAlternates(objects))); err != nil {
		return err
	}
	if err := v.symlink(common, []string{"shallow"}); err != nil {
		return err
	}
	commonInfo.Head = "ref: refs/heads/" + oursLabel // a draft has no HEAD of its own
	return v.fill(common, common, viewConfig(slices.DeleteFunc(commonInfo.Settings, isSharedRepository), false), "", commonInfo)
}

// requireCommits returns CHANGES_NOT_FOUND if the repository lacks one of the commits. It fetches missing objects of a partial clone.
func (d *draft) requireCommits(ctx context.Context, commits []string) error {
	commits = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(commits))), func(oid string) bool { return oid == "" })
	for _, oid := range commits {
		if !gitfiles.IsOID(oid) {
			return lostCommitError(oid)
		}
	}
	found, err := d.existingObjects(ctx, commits)
	if err != nil {
		return err
	}
	for _, oid := range commits {
		if !slices.Contains(found, oid) {
			return lostCommitError(oid)
		}
		if err := d.git.fetchMissing(ctx, d.repository, oid); err != nil {
			return err
		}
	}
	return nil
}

// lostCommitError returns CHANGES_NOT_FOUND.
func lostCommitError(oid string) error {
	return fleet.Errorf(fleet.ReasonChangesNotFound, "the repository does not have the commit %s", fleet.Shorten(oid, 64))
}

// treeOf returns the tree of the commit.
func (d *draft) treeOf(ctx context.Context, commit string) (string, error) {
	return d.run(ctx, "rev-parse", commit+"^{tree}")
}

// store copies the commit, which was made in the draft, into the repository. The repository has the older commits.
func (d *draft) store(ctx context.Context, commit string, older ...string) error {
	return d.git.copyObjects(ctx, d.repository, d.view, []string{commit}, older)
}

// commitObject is the content of a commit.
type commitObject struct {
	tree      string
	parents   []string
	author    string // with the date
	committer string // with the date
	encoding  string // of the message; empty: UTF-8
	message   string
}

// commit makes the commit. git's own command cannot keep all bytes of another commit's author and message.
func (d *draft) commit(ctx context.Context, c commitObject) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", c.tree)
	for _, p := range c.parents {
		fmt.Fprintf(&b, "parent %s\n", p)
	}
	fmt.Fprintf(&b, "author %s\ncommitter %s\n", c.author, c.committer)
	if c.encoding != "" {
		fmt.Fprintf(&b, "encoding %s\n", c.encoding)
	}
	b.WriteString("\n" + c.message)
	var out bytes.Buffer
	err := d.pipe(ctx, strings.NewReader(b.String()), &out, "hash-object", "-t", "commit", "-w", "--stdin")
	return strings.TrimSpace(out.String()), err
}

// syntheticCommit makes a commit that serves only as one side of a merge.
func (d *draft) syntheticCommit(ctx context.Context, tree string, parents ...string) (string, error) {
	const nobody = "Fleet <" + placeholderEmail + "> 0 +0000"
	return d.commit(ctx, commitObject{tree: tree, parents: parents, author: nobody, committer: nobody, message: "one side of a merge\n"})
}
