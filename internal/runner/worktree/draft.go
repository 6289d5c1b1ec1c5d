package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
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
// Agents wrote the files that a draft merges, and .gitattributes can name filters and merge drivers. git finds the programs of these only
// in its configuration. That of a draft has only plain settings of the repository, and none of the user or the system. So no program
// runs. The attributes themselves have their usual effect: for example, merge=union merges a file as "git merge" would.
type draft struct {
	*view
	repository        string
	mu                sync.Mutex
	visited           map[string]bool // directories whose attributes the draft has
	changesAttributes bool            // the work to combine changes attributes
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
	v, err := withSpace(common, g.temp, func(temp string) (*view, error) {
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

// fillDraft completes the view of a draft.
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
	if err := writeNew(filepath.Join(v.gitDir, "objects", "info", "alternates"), alternates(withAlternates(objects))); err != nil {
		return err
	}
	if err := v.link(common, []string{"shallow"}); err != nil {
		return err
	}
	commonInfo.Head = "ref: refs/heads/" + oursLabel // a draft has no HEAD of its own
	return v.fill(common, common, viewConfig(slices.DeleteFunc(commonInfo.Settings, isSharedRepository), false), "", commonInfo)
}

// requireCommits returns CHANGES_NOT_FOUND if the repository lacks one of the commits. It fetches missing objects of a partial clone.
func (d *draft) requireCommits(ctx context.Context, commits []string) error {
	commits = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(commits))), func(oid string) bool { return oid == "" })
	for _, oid := range commits {
		if !oidPattern.MatchString(oid) {
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

func lostCommitError(oid string) error {
	return fleet.Errorf(fleet.ReasonChangesNotFound, "the repository does not have the commit %s", fleet.Shorten(oid, 64))
}

// trees returns the trees of the commits.
func (d *draft) trees(ctx context.Context, commits ...string) ([]string, error) {
	args := []string{"rev-parse"}
	for _, c := range commits {
		args = append(args, c+"^{tree}")
	}
	out, err := d.run(ctx, args...)
	if err != nil {
		return nil, err
	}
	return strings.Fields(out), nil
}

// contains reports whether the history of the commit has the older commit.
func (v *view) contains(ctx context.Context, commit, older string) (bool, error) {
	if commit == older {
		return true, nil
	}
	_, err := v.run(ctx, "merge-base", "--is-ancestor", older, commit)
	if exitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// exitCode returns git's exit code; 0 if err does not have it.
func exitCode(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.code
	}
	return 0
}

// store copies the commit, which was made in the draft, into the repository. The repository has the older commits.
func (d *draft) store(ctx context.Context, commit string, older ...string) error {
	return d.git.copyObjects(ctx, d.repository, d.view, []string{commit}, older)
}

// newCommit is a commit to make.
type newCommit struct {
	tree      string
	parents   []string
	author    string // with the date
	committer string // with the date
	encoding  string // of the message; empty: UTF-8
	message   string
}

// commit makes the commit. git's own command cannot keep all bytes of another commit's author and message.
func (d *draft) commit(ctx context.Context, c newCommit) (string, error) {
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
	const nobody = "Fleet <" + noAddress + "> 0 +0000"
	return d.commit(ctx, newCommit{tree: tree, parents: parents, author: nobody, committer: nobody, message: "one side of a merge\n"})
}

// maxAttributeDirs limits the number of directories whose attributes are read, and maxAttributesFile the size of the attributes of
// one directory, in bytes.
const maxAttributeDirs, maxAttributesFile = 5000, 1 << 20

// useAttributes copies the attributes of the commit onto for the files that the commits change, so that git merges the files
// with them.
func (d *draft) useAttributes(ctx context.Context, onto, base string, commits ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dirs := map[string]bool{".": true}
	for _, c := range append([]string{onto}, commits...) {
		within, enough := context.WithCancel(ctx) // a few small trees of an agent can have millions of paths
		each := &lineWriter{zero: true, each: func(changed string) {
			d.changesAttributes = d.changesAttributes || path.Base(changed) == ".gitattributes"
			for dir := path.Dir(changed); !dirs[dir] && len(dirs) < maxAttributeDirs; dir = path.Dir(dir) {
				dirs[dir] = true
			}
			if len(dirs) >= maxAttributeDirs {
				enough()
			}
		}}
		err := d.pipe(within, nil, each, "diff-tree", "-r", "-z", "--name-only", "--no-renames", base, c)
		enough()
		if err != nil && (len(dirs) < maxAttributeDirs || ctx.Err() != nil) {
			return err
		}
	}
	var names, files []string
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if name := path.Join(dir, ".gitattributes"); !d.visited[dir] && filepath.IsLocal(dir) && !strings.Contains(dir, "\n") {
			names, files = append(names, onto+":"+name), append(files, filepath.Join(d.dir, name))
		}
		d.visited[dir] = true
	}
	return d.eachBlob(ctx, names, func(text io.Reader) error {
		file := files[0]
		files = files[1:]
		if text == nil {
			return nil
		}
		b, err := io.ReadAll(io.LimitReader(text, maxAttributesFile))
		if err != nil {
			return err
		}
		return writeNew(file, string(b))
	})
}

// renewAttributes works like useAttributes, for a work that changes attributes. The new top onto may have changed them.
func (d *draft) renewAttributes(ctx context.Context, onto, base, head string) error {
	if !d.changesAttributes {
		return nil
	}
	clear(d.visited)
	if err := RemoveAll(d.dir); err != nil {
		return err
	}
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		return err
	}
	return d.useAttributes(ctx, onto, base, head)
}
