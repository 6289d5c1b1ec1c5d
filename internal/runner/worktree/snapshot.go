package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/gitfiles"
	"fleet/internal/runner/sandbox"
)

// maxLeftOut limits the number of files in fleet.Changes.LeftOut.
const maxLeftOut = 100

// Snapshots of an agent are stored below refs/fleet/AGENT_UID: TASK is the tree at the end of a task, TASK.base the
// commit at its start, last the newest tree, and last.head the commit of the agent's HEAD at that time.
const refsPrefix = "refs/fleet/"

var plainRefPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// AgentRefs returns the prefix of the agent's refs.
func AgentRefs(uid string) string { return refsPrefix + refPart(uid) + "/" }

func taskRef(uid, taskID string) string { return AgentRefs(uid) + refPart(taskID) }

// refPart returns the id as a part of a ref's name, encoded if necessary.
func refPart(id string) string {
	if plainRefPattern.MatchString(id) {
		return id
	}
	return digest(id)
}

// digest returns a name for the text that can be a part of a ref's name.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "x" + hex.EncodeToString(sum[:16])
}

// Begin records the commit at which a task starts, and updates the agent's refs from the repository. Uncommitted
// changes that exist at the start do not count as changes of this task.
func (g *Git) Begin(ctx context.Context, t Tree, uid, taskID string) error {
	t.UID = uid
	base, err := t.mend(ctx)
	if err != nil {
		return err
	}
	have, err := g.refs(ctx, t)
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
	if have[AgentRefs(uid)+"last.head"].oid == base {
		base = have[AgentRefs(uid)+"last"].oid
	}
	begin := update{name: taskRef(uid, taskID) + ".base", oid: base}
	err = g.updateRefs(ctx, t.Repository, begin)
	if !t.hasOwnGitDir() {
		return err
	}
	if err != nil { // the repository does not have the commit yet
		if have, err = g.collectWork(ctx, t, base); err != nil {
			return err
		}
		if err := g.updateRefs(ctx, t.Repository, begin); err != nil {
			return err
		}
	}
	return g.refresh(ctx, t, have)
}

// collectWork calls collect with a temporary view.
func (g *Git) collectWork(ctx context.Context, t Tree, head string) (refSet, error) {
	v, err := g.openView(ctx, t)
	if err != nil {
		return nil, err
	}
	defer v.close()
	have, _, err := g.collect(ctx, t, v, head)
	return have, err
}

// openTree returns a view of the tree, also of a tree without its own git directory.
func (g *Git) openTree(ctx context.Context, t Tree) (*view, error) {
	if t.hasOwnGitDir() {
		return g.openView(ctx, t)
	}
	return g.view(t.Dir, true)
}

// Snapshot stores the tree, with uncommitted changes, under the task's ref in the repository. It returns what the task
// has changed. The agent's commits come first: whatever its working tree looks like, they are in the repository before
// Snapshot looks at a file. Files that cannot be stored are in LeftOut, with the reason. Snapshot does not change the
// agent's index. It can be repeated, and then copies only what is missing.
func (g *Git) Snapshot(ctx context.Context, t Tree, uid, taskID string) (*fleet.Changes, error) {
	t.UID = uid
	if problem := t.Problem(); problem != "" && !t.hasOwnGitDir() {
		return nil, &Error{Message: problem}
	}
	v, err := g.openTree(ctx, t)
	if err != nil {
		return nil, err
	}
	defer v.close()
	c := &fleet.Changes{Ref: taskRef(uid, taskID)}
	c.Branch, _ = strings.CutPrefix(v.head, "ref: refs/heads/")
	if c.Branch == v.head {
		c.Branch = ""
	}
	head, tree := v.headCommit(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var have refSet
	if t.hasOwnGitDir() {
		var left string
		if have, left, err = g.collect(ctx, t, v, head); left != "" {
			c.LeftOut = append(c.LeftOut, left)
		}
	} else {
		have, err = g.refs(ctx, t)
	}
	if err == nil && t.hasOwnGitDir() {
		c.Branch, err = t.branchOf(have, c.Branch, head)
	}
	if err != nil {
		return nil, err
	}
	c.Base, c.Commit = have[c.Ref+".base"].oid, head
	var refs []update
	if head != "" {
		refs = append(refs, update{name: AgentRefs(uid) + "last.head", oid: head})
		if err := g.updateRefs(ctx, t.Repository, append(refs, update{name: c.Ref, oid: head})...); err != nil {
			return nil, err
		}
		if c.Base != "" && head != c.Base {
			if c.Commits, err = v.countCommits(ctx, head, "--not", c.Base); err != nil {
				return nil, err
			}
		}
		ahead, err := v.run(ctx, "rev-list", "--max-count=1", head, "--not", "--ignore-missing", "--remotes")
		if _, ours := errors.AsType[*Error](err); err != nil && (!ours || ctx.Err() != nil) {
			return nil, err
		}
		c.Pushed = err == nil && ahead == "" // the agent may have damaged its refs
	}
	if err := g.keepFiles(ctx, t, v, c, head, tree, have); err != nil {
		return nil, err
	}
	if c.Base == "" {
		if c.Base = head; head == "" {
			c.Base = c.Commit
		}
	}
	if c.Commit != "" {
		refs = append(refs, update{name: c.Ref, oid: c.Commit}, update{name: AgentRefs(uid) + "last", oid: c.Commit})
	}
	if err := g.updateRefs(ctx, t.Repository, refs...); err != nil {
		return nil, err
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
	if e, ours := errors.AsType[*Error](err); ours && ctx.Err() == nil { // the commits are safe
		c.LeftOut, err = append(c.LeftOut, leftOut("the list of changed files", e.Message)), nil
	}
	return c, err
}

// keepFiles stores the uncommitted files of the tree in the repository, and sets Commit of c to a commit with them. If
// git cannot read the files at all, c gets the reason instead, and Commit stays head.
func (g *Git) keepFiles(ctx context.Context, t Tree, v *view, c *fleet.Changes, head, headTree string, have refSet) error {
	var err error
	if v.dir != t.Dir {
		err = &Error{Message: "the directory " + t.Dir + " no longer exists"}
	}
	if err == nil {
		err = v.privateIndex(ctx, head)
	}
	if err == nil {
		var left []string
		left, err = v.stageFiles(ctx, head)
		c.LeftOut, c.Dirty = append(c.LeftOut, left...), len(left) > 0
	}
	if err == nil {
		err = v.createCommit(ctx, c, head, headTree)
	}
	if err == nil && t.hasOwnGitDir() && c.Commit != head {
		err = g.transfer(ctx, t, v, []string{c.Commit}, have)
	}
	if _, ours := errors.AsType[*Error](err); !ours || ctx.Err() != nil {
		return err
	}
	c.Commit, c.Dirty = head, true
	c.LeftOut = append(c.LeftOut, leftOut("uncommitted files", err.Error()))
	return nil
}

// leftOut describes files that a snapshot does not have.
func leftOut(what, why string) string { return what + " (" + firstLine(why) + ")" }

// firstLine returns the beginning of the first line of a message of git.
func firstLine(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	for _, prefix := range []string{"fatal: ", "error: "} {
		line = strings.TrimPrefix(line, prefix)
	}
	return fleet.Shorten(line, maxWhy)
}

// maxWhy limits the reason why a file was left out, in characters.
const maxWhy = 200

// privateIndex gives the view a copy of the agent's index. If the agent has no index, or git cannot read it within its
// limits, the copy has the files of the commit head.
func (v *view) privateIndex(ctx context.Context, head string) error {
	from := ""
	for _, e := range v.env {
		if path, ok := strings.CutPrefix(e, "GIT_INDEX_FILE="); ok {
			from = path
		}
	}
	to := filepath.Join(v.tmp, "index")
	v.env = append(v.env, "GIT_INDEX_FILE="+to, // the last value counts
		"GIT_AUTHOR_NAME=Fleet", "GIT_AUTHOR_EMAIL=fleet@localhost", "GIT_COMMITTER_NAME=Fleet", "GIT_COMMITTER_EMAIL=fleet@localhost")
	if sandbox.CopyIndex(ctx, gitfiles.IndexCopy{From: from, To: to}) == nil {
		_, err := v.run(ctx, "ls-files", "--stage", "--error-unmatch", "--", ":(top,literal)\x01") // reads the index, and lists nothing
		if err == nil || strings.Contains(err.Error(), "did not match") || ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return v.newIndex(ctx, head)
}

// newIndex gives the view an index with the files of the commit head.
func (v *view) newIndex(ctx context.Context, head string) error {
	if err := os.Remove(filepath.Join(v.tmp, "index")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if head == "" {
		return nil
	}
	_, err := v.run(ctx, "read-tree", head)
	return err
}

// stageFiles adds the files of the working tree to the index, and returns the files that it left out.
func (v *view) stageFiles(ctx context.Context, head string) (left []string, err error) {
	var changed listing
	_, err = v.listFiles(ctx, &changed, "--modified", "--deleted")
	if err == nil && changed.countedDirs != nil { // the agent's index can name any number of files that do not exist
		if err := v.newIndex(ctx, head); err != nil {
			return nil, err
		}
		changed = listing{}
		_, err = v.listFiles(ctx, &changed, "--modified", "--deleted")
	}
	if err != nil {
		return nil, err
	}
	var untracked listing
	warnings, err := v.listFiles(ctx, &untracked, "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	var s staging
	if s.sizes, err = v.sizes(ctx, append(slices.Clone(changed.paths), untracked.paths...)); err != nil {
		return nil, err
	}
	for _, path := range changed.paths {
		s.take(path)
	}
	s.leaveOutCounted(&changed)
	s.addNew(v.leaveOutLinked(ctx, &s, untracked.paths))
	s.leaveOutCounted(&untracked)
	if err := v.leaveOutUnread(ctx, &s, warnings); err != nil {
		return nil, err
	}
	err = v.addPaths(ctx, &s, s.paths)
	return s.result(), err
}

// listFiles passes the paths of the working tree that ls-files lists with the options to l. It returns git's warnings.
func (v *view) listFiles(ctx context.Context, l *listing, options ...string) (warnings string, err error) {
	var errs tailBuffer
	args := append([]string{"ls-files", "-z", "--deduplicate"}, options...)
	err = v.git.pipeWarn(ctx, v.policy, v.env, v.dir, nil, l, &errs, args...)
	return errs.String(), err
}

// unreadDirPattern matches git's warning about a directory that it cannot read. git cuts off the warning about a long path.
var unreadDirPattern = regexp.MustCompile(`could not open directory '(.*?)(?:': (.*))?$`)

// leaveOutUnread leaves out the files in directories that git could not read, according to its warnings.
func (v *view) leaveOutUnread(ctx context.Context, s *staging, warnings string) error {
	deep := false
	for line := range strings.Lines(warnings) {
		m := unreadDirPattern.FindStringSubmatch(strings.TrimSpace(line))
		switch {
		case m == nil:
		case m[2] == "" || strings.Contains(m[2], "too long"):
			deep = true
		default:
			s.leaveOut(m[1], m[2])
		}
	}
	if !deep {
		return nil
	}
	look, err := sandbox.Examine(ctx, v.dir)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	what, why := "files in deep directories", "git cannot read such long paths"
	if err == nil && look.Deep > 0 {
		what = fmt.Sprintf("%s deep in %s/", plural(int(look.Deep), "file", "files"), fleet.Shorten(look.DeepIn, maxWhy))
	}
	s.leaveOut(what, why)
	return nil
}

// addPaths adds the paths to the index. git refuses all paths of a call if it cannot add one of them, so addPaths divides them
// until it has found those that git refuses.
func (v *view) addPaths(ctx context.Context, s *staging, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	in := strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	err := v.pipe(ctx, in, io.Discard, "update-index", "-z", "--add", "--remove", "--replace", "--stdin")
	if _, ours := errors.AsType[*Error](err); !ours || ctx.Err() != nil {
		return err
	}
	_ = os.Remove(filepath.Join(v.tmp, "index.lock")) // git was perhaps killed at one of its limits
	if s.refused++; len(paths) == 1 || s.refused > maxRefused {
		what := paths[0]
		if len(paths) > 1 {
			what = fmt.Sprintf("%s and %d more files", what, len(paths)-1)
		}
		s.leaveOut(what, err.Error())
		return nil
	}
	half := len(paths) / 2
	if err := v.addPaths(ctx, s, paths[:half]); err != nil {
		return err
	}
	return v.addPaths(ctx, s, paths[half:])
}

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

// addDifferences adds the files that differ between the commits to c.
func (v *view) addDifferences(ctx context.Context, c *fleet.Changes) error {
	var out bytes.Buffer
	if err := v.pipe(ctx, nil, &out, append(slices.Clone(diffArguments), "-z", "--raw", "--numstat", "--end-of-options", c.Base, c.Commit)...); err != nil {
		return err
	}
	addFiles(c, out.String())
	return nil
}

// addFiles adds the files in the output of diff-tree with -z, --raw and --numstat.
func addFiles(c *fleet.Changes, out string) {
	kinds := map[string]fleet.FileChangeKind{}
	fields := strings.Split(out, "\x00")
	next := func() (f string) {
		if len(fields) > 0 {
			f, fields = fields[0], fields[1:]
		}
		return f
	}
	for len(fields) > 0 {
		f := next()
		if strings.HasPrefix(f, ":") { // :100644 100644 sha1 sha2 M
			status := f[strings.LastIndexByte(f, ' ')+1:]
			path, kind := next(), fleet.FileModified
			switch {
			case strings.HasPrefix(status, "A"):
				kind = fleet.FileAdded
			case strings.HasPrefix(status, "D"):
				kind = fleet.FileDeleted
			case strings.HasPrefix(status, "R"):
				path, kind = next(), fleet.FileRenamed
			}
			kinds[path] = kind
			continue
		}
		counts := strings.SplitN(f, "\t", 3)
		if len(counts) < 3 {
			continue
		}
		file := fleet.FileChange{Path: counts[2], Binary: counts[0] == "-"}
		if file.Path == "" {
			file.From, file.Path = next(), next()
		}
		file.Kind = kinds[file.Path]
		file.Insertions, _ = strconv.Atoi(counts[0])
		file.Deletions, _ = strconv.Atoi(counts[1])
		c.Files++
		c.Insertions += file.Insertions
		c.Deletions += file.Deletions
		if len(c.List) < fleet.MaxChangedFiles {
			c.List = append(c.List, file)
		}
	}
}
