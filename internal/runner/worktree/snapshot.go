package worktree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
)

// Limits for uncommitted files in a snapshot, in bytes.
const (
	maxSnapshotFile = 50 << 20
	maxSnapshot     = 500 << 20
	maxIndex        = 256 << 20
)

// maxLeftOut limits the number of files in fleet.Changes.LeftOut.
const maxLeftOut = 100

// Snapshots of an agent are stored below refs/fleet/AGENT_UID: TASK is the tree at the end of a task, TASK.base the
// commit at its start, last the newest tree, and last.head the commit of the agent's HEAD at that time.
const refs = "refs/fleet/"

var plainRef = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// AgentRefs returns the prefix of the agent's refs.
func AgentRefs(uid string) string { return refs + refPart(uid) + "/" }

func taskRef(uid, taskID string) string { return AgentRefs(uid) + refPart(taskID) }

// refPart returns the id as a part of a ref's name, encoded if necessary.
func refPart(id string) string {
	if plainRef.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "x" + hex.EncodeToString(sum[:16])
}

// Begin records the commit at which a task starts, and updates the agent's refs from the repository. Uncommitted
// changes that exist at the start do not count as changes of this task.
func (g *Git) Begin(ctx context.Context, t Tree, uid, taskID string) error {
	t.UID = uid
	if err := t.mend(); err != nil {
		return err
	}
	have, err := g.refs(ctx, t)
	if err != nil {
		return err
	}
	var base string
	if t.separate() {
		base, err = g.headOf(ctx, t)
	} else {
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
	if !t.separate() {
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
func (g *Git) collectWork(ctx context.Context, t Tree, wants ...string) (refSet, error) {
	v, err := g.open(t)
	if err != nil {
		return nil, err
	}
	defer v.close()
	return g.collect(ctx, t, v, wants...)
}

// openTree returns a view of the tree, also of a tree without its own git directory.
func (g *Git) openTree(t Tree) (*view, error) {
	if t.separate() {
		return g.open(t)
	}
	return g.view(t.Dir, true)
}

// Snapshot stores the tree, with uncommitted changes, under the task's ref in the repository. It returns what the task
// has changed. It leaves out ignored files and large files, and does not change the agent's index. It also collects the
// agent's branches.
func (g *Git) Snapshot(ctx context.Context, t Tree, uid, taskID string) (*fleet.Changes, error) {
	t.UID = uid
	v, err := g.openTree(t)
	if err != nil {
		return nil, err
	}
	defer v.close()
	c := &fleet.Changes{Ref: taskRef(uid, taskID)}
	c.Branch, _ = strings.CutPrefix(v.head, "ref: refs/heads/")
	if c.Branch == v.head {
		c.Branch = ""
	}
	head, tree := v.headNow(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := v.privateIndex(ctx, head); err != nil {
		return nil, err
	}
	if c.LeftOut, err = v.stage(ctx); err != nil {
		return nil, err
	}
	if err := v.commit(ctx, c, head, tree); err != nil {
		return nil, err
	}
	var have refSet
	if t.separate() {
		have, err = g.collect(ctx, t, v, head, c.Commit)
	} else {
		have, err = g.refs(ctx, t)
	}
	if err == nil && t.separate() {
		c.Branch, err = t.branchOf(have, c.Branch, head)
	}
	if err != nil {
		return nil, err
	}
	if c.Base = have[c.Ref+".base"].oid; c.Base == "" {
		if c.Base = head; head == "" {
			c.Base = c.Commit
		}
	}
	refs := []update{{name: c.Ref, oid: c.Commit}, {name: AgentRefs(uid) + "last", oid: c.Commit}}
	if head != "" {
		refs = append(refs, update{name: AgentRefs(uid) + "last.head", oid: head})
		if head != c.Base {
			if c.Commits, err = v.count(ctx, head, "--not", c.Base); err != nil {
				return nil, err
			}
		}
		ahead, err := v.run(ctx, "rev-list", "--max-count=1", head, "--not", "--ignore-missing", "--remotes")
		if err != nil {
			return nil, err
		}
		c.Pushed = ahead == ""
	}
	if err := g.updateRefs(ctx, t.Repository, refs...); err != nil {
		return nil, err
	}
	if c.Base == c.Commit {
		return c, nil
	}
	return c, v.compare(ctx, c)
}

// privateIndex gives the view a copy of the agent's index. If the agent has no index, the copy has the files of the
// commit head.
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
	info, err := os.Lstat(from)
	if err == nil {
		var index []byte
		if index, err = agentfile.Read(from, maxIndex); err == nil {
			err = os.WriteFile(to, index, 0o600)
		}
	}
	if err == nil {
		// git trusts the index only about files that are older than the index, so the copy gets the original's time.
		return os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	if head == "" {
		return nil
	}
	_, err = v.run(ctx, "read-tree", head)
	return err
}

// stage adds the files of the working tree to the index, and returns the files that it left out.
func (v *view) stage(ctx context.Context) (leftOut []string, err error) {
	var list bytes.Buffer // run would trim names with spaces
	err = v.pipe(ctx, nil, &list, "ls-files", "-z", "--others", "--modified", "--deleted", "--exclude-standard", "--deduplicate")
	if err != nil {
		return nil, err
	}
	var take strings.Builder
	total := int64(0)
	for path := range strings.SplitSeq(list.String(), "\x00") {
		if path == "" {
			continue
		}
		// A path cannot lead out of the tree, because git lists no path below a symbolic link.
		info, err := os.Lstat(filepath.Join(v.dir, path))
		nested := strings.HasSuffix(path, "/") // another repository that is not a submodule
		if err == nil && info.Mode().IsRegular() {
			if info.Size() <= maxSnapshotFile {
				total += info.Size()
			}
			nested = info.Size() > maxSnapshotFile || total > maxSnapshot
		}
		if nested {
			if len(leftOut) < maxLeftOut {
				leftOut = append(leftOut, path)
			}
			continue
		}
		take.WriteString(path + "\x00")
	}
	if take.Len() == 0 {
		return leftOut, nil
	}
	err = v.pipe(ctx, strings.NewReader(take.String()), io.Discard, "update-index", "-z", "--add", "--remove", "--replace", "--stdin")
	return leftOut, err
}

// commit creates a commit of the index and records it in c. If the index equals headTree, the tree of head, it records
// head instead.
func (v *view) commit(ctx context.Context, c *fleet.Changes, head, headTree string) error {
	tree, err := v.run(ctx, "write-tree")
	if err != nil {
		return err
	}
	if tree == headTree {
		c.Commit, c.Dirty = head, len(c.LeftOut) > 0
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

// compare adds the files that differ between the commits to c.
func (v *view) compare(ctx context.Context, c *fleet.Changes) error {
	var out bytes.Buffer
	if err := v.pipe(ctx, nil, &out, append(slices.Clone(diff), "-z", "--raw", "--numstat", c.Base, c.Commit)...); err != nil {
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
