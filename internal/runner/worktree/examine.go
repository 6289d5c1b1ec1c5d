package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fleet/internal/runner/filetree"
)

// Work describes the work of an agent.
type Work struct {
	// Unsaved describes, for people, what may exist only in the tree or in its git directory. It is empty only if it is proved
	// that the repository has everything.
	Unsaved []string
	// Commits is the number of commits that only branches of the agent have in the repository, and Branches are these branches.
	Commits  int
	Branches []string
}

// Examine collects the agent's commits into the repository, and compares the tree with the repository. look is the survey of the
// directory that contains t.Dir and t.GitDir.
//
// It does not ask what git says about the agent's index, because the agent decides what its index says: files can be ignored, or
// marked as unchanged. It proves that the directory has the files of HEAD, unchanged, and no other files; that the git directory
// has no files besides those of an ordinary git directory; and that every commit in it is on a branch or a tag of the
// repository. Whatever cannot be proved counts as unsaved.
func (g *Git) Examine(ctx context.Context, t Tree, survey filetree.Survey) (Work, error) {
	var w Work
	if !t.hasOwnGitDir() {
		w.Unsaved = append(w.Unsaved, "a working copy without a git directory")
		return w, ctx.Err()
	}
	v, err := g.openView(ctx, t)
	if err != nil {
		return w, err
	}
	defer v.close()
	head, _ := v.headCommit(ctx)
	_, left, err := g.collect(ctx, t, v, head)
	if err != nil {
		return w, err
	}
	if left != "" {
		w.Unsaved = append(w.Unsaved, left)
	}
	if w.Commits, w.Branches, err = g.Commits(ctx, t); err != nil {
		return w, err
	}
	if source, ok := g.sources.Load(t.Repository); ok && w.Commits > 0 {
		// Only the remote says what the agent has pushed: the agent can write its own record of that. If the remote does not
		// answer, the branches stay.
		limited, cancel := context.WithTimeout(ctx, remoteTimeout)
		err := g.Fetch(limited, source.(string), t.Repository)
		cancel()
		if n, branches, cerr := g.Commits(ctx, t); err == nil && cerr == nil {
			w.Commits, w.Branches = n, branches
		}
		if ctx.Err() != nil {
			return w, ctx.Err()
		}
	}
	loose, err := g.looseCommits(ctx, t, v)
	switch {
	case err != nil:
		return w, err
	case loose > 0:
		w.Unsaved = append(w.Unsaved, plural(loose, "commit on no branch", "commits on no branch"))
	}
	w.Unsaved = append(w.Unsaved, t.unusualEntries(survey)...)
	files, err := v.countDifferent(ctx, t, head, survey.Parts[filepath.Base(t.Dir)].Files)
	if err == nil && files > 0 {
		w.Unsaved = append(w.Unsaved, plural(files, "file that its last commit does not have", "files that its last commit does not have"))
	}
	if err == nil && head != "" && len(w.Unsaved) == 0 {
		var staged int
		if staged, err = v.countStaged(ctx, head); staged > 0 {
			w.Unsaved = append(w.Unsaved, plural(staged, "staged change", "staged changes"))
		}
	}
	return w, err
}

// remoteTimeout limits how long Examine waits for the remote of a mirror.
const remoteTimeout = 30 * time.Second

// plural returns the number with the noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// usualEntries are the entries of a git directory without work of its own.
var usualEntries = map[string]string{
	"HEAD": "", "config": "", "description": "", "index": "", "objects": "", "refs": "", "logs": "", "packed-refs": "", "info": "", "hooks": "", "branches": "",
	"ORIG_HEAD": "", "FETCH_HEAD": "", "COMMIT_EDITMSG": "", "shallow": "", "gc.log": "", "index.lock": "", "AUTO_MERGE": "", "MERGE_RR": "", "rr-cache": "",
	"modules": "submodules", "worktrees": "worktrees of its own", "lfs": "files of Git LFS",
}

// unusualEntries describes for people the entries of the git directory that may be work.
func (t Tree) unusualEntries(survey filetree.Survey) (found []string) {
	other := 0
	unlisted := survey.Parts[filepath.Base(t.GitDir)].Files
	for path, part := range survey.Parts {
		name, ok := strings.CutPrefix(path, filepath.Base(t.GitDir)+"/")
		if !ok {
			continue
		}
		unlisted -= part.Files
		what, known := usualEntries[name]
		switch {
		case !known && !strings.HasPrefix(name, "sharedindex."):
			other++
		case what != "" && part.Files > 0:
			found = append(found, what)
		}
	}
	if slices.Sort(found); other > 0 || unlisted > 0 {
		found = append(found, "a merge, a rebase or something else in its git directory")
	}
	return found
}

// maxCommits limits the number of commits in an agent's git directory that are compared with the repository.
const maxCommits = 700_000

// maxList limits what git may print about an agent's work, in bytes.
const maxList = 64 << 20

// errTooLong means that git has printed more than maxList bytes.
var errTooLong = errors.New("there is too much to examine")

// limitedBuffer keeps at most maxList bytes.
type limitedBuffer struct{ bytes.Buffer }

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxList {
		return 0, errTooLong
	}
	return l.Buffer.Write(p)
}

// looseCommits returns how many commits in the agent's git directory are on no branch and no tag of the repository: older stashes,
// commits of a detached HEAD, and commits that were replaced by others.
func (g *Git) looseCommits(ctx context.Context, t Tree, v *view) (int, error) {
	own, err := v.ownCommits(ctx, t)
	if err != nil || len(own) == 0 {
		return 0, err
	}
	have, err := g.refs(ctx, t)
	if err != nil {
		return 0, err
	}
	mine := AgentRefs(t.UID)
	maps.DeleteFunc(have, func(name string, _ ref) bool { // Fleet's refs of tasks also have commits that no branch has
		return strings.HasPrefix(name, mine) && !strings.HasPrefix(name, mine+"heads/") && !strings.HasPrefix(name, mine+"tags/")
	})
	repository, err := g.view(t.Repository, false)
	if err != nil {
		return 0, err
	}
	defer repository.close()
	found, err := repository.existingObjects(ctx, own)
	if err != nil {
		return 0, err
	}
	var out limitedBuffer
	if err := repository.pipe(ctx, revisions(found, have.oids()), &out, "rev-list", "--count", "--ignore-missing", "--stdin"); err != nil {
		return 0, err
	}
	var n int
	_, err = fmt.Sscan(out.String(), &n)
	return len(own) - len(found) + n, err
}

// ownCommits returns the commits in the agent's git directory.
func (v *view) ownCommits(ctx context.Context, t Tree) (all []string, err error) {
	dir := filepath.Join(v.tmp, "own") // without alternates, so that git does not list the objects of the repository
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	for _, name := range v.info.Objects {
		name = filepath.Base(name)
		if err := os.Symlink(filepath.Join(t.GitDir, "objects", name), filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	from := *v
	from.env = append(slices.Clone(v.env), "GIT_OBJECT_DIRECTORY="+dir)
	out := lineWriter{each: func(line string) {
		if oid, ok := strings.CutPrefix(line, "commit "); ok && oidPattern.MatchString(oid) && len(all) <= maxCommits {
			all = append(all, oid)
		}
	}}
	err = from.pipe(ctx, nil, &out, "cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objecttype) %(objectname)")
	if err == nil && len(all) > maxCommits {
		err = errTooLong
	}
	return all, err
}

// countDifferent returns how many files of the working tree differ from the commit head, or are missing there. files is the number of all
// files in the tree, with the link to the git directory.
func (v *view) countDifferent(ctx context.Context, t Tree, head string, files int64) (int, error) {
	if head == "" {
		return int(files), nil
	}
	with := *v
	with.env = append(slices.Clone(v.env), "GIT_INDEX_FILE="+filepath.Join(v.tmp, "examined"),
		"GIT_OBJECT_DIRECTORY="+filepath.Join(commonDir(t.Repository), "objects")) // so that the agent's objects count for nothing
	if _, err := with.run(ctx, "read-tree", head); err != nil {
		return 0, err
	}
	var changed limitedBuffer
	if err := with.pipe(ctx, nil, &changed, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=all"); err != nil {
		return 0, err
	}
	var known fileCounter
	if err := with.pipe(ctx, nil, &known, "ls-files", "--stage", "-z"); err != nil {
		return 0, err
	}
	more := max(files-1-int64(known.files), 0) // files that git does not know, also ignored ones and those of other repositories
	return strings.Count(changed.String(), "\x00") + int(more), nil
}

// countStaged returns how many files of the agent's index differ from the commit head. The working tree need not have their content.
func (v *view) countStaged(ctx context.Context, head string) (int, error) {
	if err := v.privateIndex(ctx, head); err != nil {
		return 0, err
	}
	var changed limitedBuffer
	err := v.pipe(ctx, nil, &changed, "diff-index", "--cached", "--name-only", "--no-renames", "--ignore-submodules=none", "-z", head)
	return strings.Count(changed.String(), "\x00"), err
}

// fileCounter counts the files in the output of ls-files with --stage and -z, without keeping it.
type fileCounter struct {
	files int
	line  []byte // the beginning of an entry
}

func (c *fileCounter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == 0 {
			if !bytes.HasPrefix(c.line, []byte(gitlink)) {
				c.files++
			}
			c.line = c.line[:0]
		} else if len(c.line) < len(gitlink) {
			c.line = append(c.line, b)
		}
	}
	return len(p), nil
}

var _ io.Writer = (*fileCounter)(nil)

const gitlink = "160000" // the mode of a submodule
