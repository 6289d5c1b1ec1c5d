package worktree

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fleet/internal/fleet"
)

// file is a generated file.
type file struct {
	mode string // 100644, 100755 or 120000
	text string
}

// generator makes random histories.
type generator struct {
	*rand.Rand
	out  bytes.Buffer // for fast-import
	mark int
}

// plainNames and oddNames are parts of paths. Git quotes odd names, or they mean something to a shell or to git.
var (
	plainNames = []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	oddNames   = []string{"sp ace", "quo\"te", "tab\there", "ünï", "*", "[x]", "-n", ":(top)z", "new\nline", "back\\slash", "HEAD", "~", "CON"}
)

func (g *generator) pick(names []string) string { return names[g.IntN(len(names))] }

func (g *generator) path() string {
	p := g.pick(slices.Concat(plainNames, oddNames))
	for range g.IntN(3) {
		p = g.pick([]string{"dir", "sub", "Dir", "a", "x y"}) + "/" + p
	}
	return p
}

func (g *generator) line() string { return fmt.Sprintf("line %d %s", g.IntN(40), g.pick(plainNames)) }

func (g *generator) file() file {
	var b strings.Builder
	end := g.pick([]string{"\n", "\n", "\n", "\r\n"})
	for range 3 + g.IntN(25) {
		b.WriteString(g.line() + end)
	}
	switch g.IntN(12) {
	case 0:
		return file{"100644", "bin\x00" + b.String()}
	case 1:
		return file{"120000", g.path()}
	case 2:
		return file{"100755", b.String()}
	case 3:
		return file{"100644", strings.TrimSuffix(b.String(), end)}
	case 4:
		return file{"100644", ""}
	}
	return file{"100644", b.String()}
}

// edit changes the files of a tree as an author would.
func (g *generator) edit(tree map[string]file) {
	names := slices.Sorted(maps.Keys(tree))
	for range 1 + g.IntN(4) {
		p := g.path()
		if len(names) > 0 && g.IntN(5) > 0 {
			p = g.pick(names)
		}
		f, ok := tree[p]
		switch n := g.IntN(14); {
		case !ok || n == 0:
			put(tree, p, g.file())
		case n == 1:
			delete(tree, p)
		case n == 2 && f.mode != "120000":
			f.mode = map[string]string{"100644": "100755", "100755": "100644"}[f.mode]
			tree[p] = f
		case n == 3 || n == 4: // a rename, sometimes with a change
			delete(tree, p)
			if n == 4 {
				f = g.change(f)
			}
			put(tree, g.path(), f)
		case n == 5: // a directory is renamed
			if dir := filepath.Dir(p); dir != "." {
				for _, q := range names {
					if rest, in := strings.CutPrefix(q, dir+"/"); in && tree[q].mode != "" {
						f := tree[q]
						delete(tree, q)
						put(tree, "moved/"+rest, f)
					}
				}
			}
		case n == 6:
			put(tree, ".gitattributes", file{"100644", g.pick([]string{"* merge=union\n", "*a binary\n", "* merge=evil filter=evil diff=evil\n", "a -merge\nb merge=union\n", "* conflict-marker-size=12\n"})})
		default:
			tree[p] = g.change(f)
		}
	}
}

// put adds a file to the tree, and removes the files that a tree cannot have together with it.
func put(tree map[string]file, p string, f file) {
	for q := range tree {
		if strings.HasPrefix(q, p+"/") || strings.HasPrefix(p, q+"/") {
			delete(tree, q)
		}
	}
	tree[p] = f
}

// change changes some lines, or the target of a link.
func (g *generator) change(f file) file {
	if f.mode == "120000" {
		return file{f.mode, g.path()}
	}
	lines := strings.SplitAfter(f.text, "\n")
	for range 1 + g.IntN(2) {
		i := g.IntN(len(lines))
		switch g.IntN(3) {
		case 0:
			lines[i] = g.line() + "\n"
		case 1:
			lines = slices.Insert(lines, i, g.line()+"\n")
		default:
			lines = slices.Delete(lines, i, min(len(lines), i+1+g.IntN(3)))
		}
		if len(lines) == 0 {
			lines = []string{""}
		}
	}
	return file{f.mode, strings.Join(lines, "")}
}

// commit writes a commit with the tree for fast-import. If from is empty, the commit is on top of the ref, if that exists.
func (g *generator) commit(ref, from string, tree map[string]file) {
	g.mark++
	fmt.Fprintf(&g.out, "commit %s\nmark :%d\nauthor Zoë %d <z@example.com> %d +0200\ncommitter C <c@example.com> %d +0000\ndata 3\nx%c\n\n", ref, g.mark, g.mark%7, 1e9+g.mark, 1e9+g.mark, 'a'+rune(g.mark%20))
	if from != "" {
		fmt.Fprintf(&g.out, "from %s\n", from)
	}
	g.out.WriteString("deleteall\n")
	for _, p := range slices.Sorted(maps.Keys(tree)) {
		f := tree[p]
		fmt.Fprintf(&g.out, "M %s inline %s\ndata %d\n%s\n", f.mode, quotePath(p), len(f.text), f.text)
	}
}

func quotePath(p string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(p) + `"`
}

// writePairs writes n pairs of branches ours-N and theirs-N. The branches of a pair have a common commit.
func (g *generator) writePairs(n int) {
	for i := range n {
		base := map[string]file{}
		for range 4 + g.IntN(8) {
			put(base, g.path(), g.file())
		}
		root := fmt.Sprintf("refs/heads/base-%d", i)
		g.commit(root, "", base)
		from := fmt.Sprintf(":%d", g.mark)
		for _, side := range []string{"ours", "theirs"} {
			tree, parent := maps.Clone(base), from
			for range 1 + g.IntN(3) {
				for before := maps.Clone(tree); maps.Equal(before, tree); { // "git rebase" treats an empty commit differently
					g.edit(tree)
				}
				g.commit(fmt.Sprintf("refs/heads/%s-%d", side, i), parent, tree)
				parent = ""
			}
		}
	}
}

// referenceTree is a working tree in which git itself merges and rebases.
type referenceTree struct {
	dir string
	t   testing.TB
}

// newReferenceTree creates a working tree of the repository.
func newReferenceTree(t testing.TB, repository, commit string) referenceTree {
	dir := filepath.Join(t.TempDir(), "tree")
	sh(t, repository, "git worktree add -q --detach --no-checkout '"+dir+"' "+commit)
	return referenceTree{dir, t}
}

// git runs git, and returns its standard output and its exit code.
func (r referenceTree) git(args ...string) (string, int) {
	cmd := exec.Command("git", append([]string{"-c", "core.hooksPath=/dev/null", "-c", "merge.conflictStyle=merge", "-c", "core.protectNTFS=false"}, args...)...)
	cmd.Dir, cmd.Env = r.dir, append(os.Environ(), authorEnv...)
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState == nil {
		r.t.Error(err)
	}
	return strings.TrimSuffix(string(out), "\n"), cmd.ProcessState.ExitCode()
}

// merge returns the tree of the merge, or the paths with conflicts, and the output of git.
func (r referenceTree) merge(ours, theirs string) (tree string, conflicts []string, output string) {
	r.git("reset", "-q", "--hard")
	r.git("clean", "-qffdx")
	if out, code := r.git("checkout", "-q", "-f", "--detach", ours); code != 0 {
		r.t.Errorf("git checkout %s: %s", ours, out)
	}
	r.git("clean", "-qffdx")
	output, code := r.git("merge", "--no-ff", "--no-edit", theirs)
	tree, conflicts = r.result(code)
	return tree, conflicts, output
}

// rebase returns the tree of the rebased work and the authors of its commits, or the paths with conflicts.
func (r referenceTree) rebase(onto, work string) (tree, authors string, conflicts []string) {
	r.git("rebase", "--abort")
	r.git("reset", "-q", "--hard")
	r.git("clean", "-qffdx")
	r.git("checkout", "-q", "-f", "--detach", work)
	r.git("clean", "-qffdx")
	_, code := r.git("rebase", "-q", onto)
	if tree, conflicts = r.result(code); code == 0 {
		authors, _ = r.git("log", "--format=%an %ae %at %s", onto+"..HEAD")
	}
	return tree, authors, conflicts
}

func (r referenceTree) result(code int) (tree string, conflicts []string) {
	if code == 0 {
		tree, _ = r.git("rev-parse", "HEAD^{tree}")
		return tree, nil
	}
	out, _ := r.git("ls-files", "-z", "--unmerged")
	for line := range strings.SplitSeq(out, "\x00") {
		if _, path, ok := strings.Cut(line, "\t"); ok && !slices.Contains(conflicts, path) {
			conflicts = append(conflicts, path)
		}
	}
	slices.Sort(conflicts)
	return "", conflicts
}

// pathsOf returns the sorted paths of the conflicts. In names that git makes up for conflicts, it replaces the labels of Combine by
// those of "git merge".
func pathsOf(all []fleet.Conflict, theirs string) (paths []string) {
	for _, c := range all {
		p := c.Path
		if i := strings.LastIndex(p, "~"+oursLabel); i > 0 {
			p = p[:i] + "~HEAD" + p[i+1+len(oursLabel):]
		}
		if i := strings.LastIndex(p, "~"+theirsLabel); i > 0 {
			p = p[:i] + "~" + theirs + p[i+1+len(theirsLabel):]
		}
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return paths
}

// commitPair is a pair of commits to combine.
type commitPair struct{ onto, head string }

// compareWithGit compares Combine with git for each pair, with the strategies for its index. It returns how many pairs git
// combines cleanly, and how many others there are.
func compareWithGit(t *testing.T, repository string, all []commitPair, strategies func(i int) []fleet.Strategy) (clean, conflicts int) {
	t.Helper()
	g := New(append(os.Environ(), authorEnv...), t.TempDir())
	group, ctx := errgroup.WithContext(t.Context())
	var mu sync.Mutex
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		r := newReferenceTree(t, repository, all[0].onto)
		group.Go(func() error {
			for i := worker; i < len(all); i += workers {
				ok, err := r.compare(ctx, g, repository, all[i], strategies(i))
				if err != nil {
					return err
				}
				mu.Lock()
				if ok {
					clean++
				} else {
					conflicts++
				}
				mu.Unlock()
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	return clean, conflicts
}

// compare compares Combine with git for a pair, and reports whether git merges it cleanly or, if the strategies include it, rebases it
// cleanly. The error describes a difference.
func (r referenceTree) compare(ctx context.Context, g *Git, repository string, p commitPair, strategies []fleet.Strategy) (clean bool, err error) {
	c := fleet.Combination{
		Contribution: fleet.Contribution{Head: p.head}, Onto: p.onto, Message: "land", Strategy: fleet.Merge,
		Author: fleet.Person{Name: "A", Email: "a@b"}, Committer: fleet.Person{Name: "L", Email: "l@b"}, At: time.Unix(2e9, 0),
	}
	var tree, output string
	var paths []string
	if strategies[0] != fleet.Rebase {
		tree, paths, output = r.merge(p.onto, p.head)
	}
	label := p.head
	for _, c.Strategy = range strategies {
		if c.Strategy == fleet.Rebase {
			continue
		}
		got, err := g.Combine(ctx, repository, c)
		if err != nil {
			return false, fmt.Errorf("%s %s into %s: %w", c.Strategy, p.head, p.onto, err)
		}
		unmerged := slices.DeleteFunc(slices.Clone(got.Conflicts), func(c fleet.Conflict) bool { // some conflicts leave no unmerged file
			return !slices.Contains(paths, pathsOf([]fleet.Conflict{c}, label)[0]) && strings.Contains(output, "CONFLICT ("+c.Kind+")")
		})
		if have := pathsOf(unmerged, label); tree == "" && !slices.Equal(have, paths) {
			return false, fmt.Errorf("%s %s into %s: conflicts %+v, git has %q", c.Strategy, p.head, p.onto, got.Conflicts, paths)
		}
		if err := r.compareTree(p, got, tree); err != nil {
			return false, fmt.Errorf("%s: %w", c.Strategy, err)
		}
	}
	if !slices.Contains(strategies, fleet.Rebase) {
		return tree != "", nil
	}
	c.Strategy = fleet.Rebase
	got, err := g.Combine(ctx, repository, c)
	if err != nil {
		return false, fmt.Errorf("rebase %s on %s: %w", p.head, p.onto, err)
	}
	rebased, authors, paths := r.rebase(p.onto, p.head)
	if (rebased == "") != (got.Commit == "") {
		return false, fmt.Errorf("rebase %s on %s: conflicts %q, git has %q", p.head, p.onto, pathsOf(got.Conflicts, label), paths)
	}
	if err := r.compareTree(p, got, rebased); err != nil || rebased == "" {
		return false, err
	}
	if ours, _ := r.git("log", "--format=%an %ae %at %s", p.onto+".."+got.Commit); ours != authors {
		return false, fmt.Errorf("rebase %s on %s: commits %q, git has %q", p.head, p.onto, ours, authors)
	}
	return true, nil
}

// compareTree compares the tree of a result with git's.
func (r referenceTree) compareTree(p commitPair, got fleet.CombineResult, want string) error {
	have := ""
	if got.Commit != "" {
		have, _ = r.git("rev-parse", got.Commit+"^{tree}")
	}
	if have == want {
		return nil
	}
	return fmt.Errorf("%s into %s: the tree is %q, git has %q (conflicts %+v)", p.head, p.onto, have, want, got.Conflicts)
}

// TestHistories checks that Combine gives the results of "git merge" for the parents of all merge commits of some repositories.
// FLEET_TEST_HISTORIES has the paths of the repositories, separated by colons. The test adds objects and working trees to them.
func TestHistories(t *testing.T) {
	list := os.Getenv("FLEET_TEST_HISTORIES")
	if list == "" {
		t.Skip("FLEET_TEST_HISTORIES names no repositories")
	}
	for _, repo := range filepath.SplitList(list) {
		var all []commitPair
		for line := range strings.Lines(sh(t, repo, "git log --all --min-parents=2 --max-parents=2 --format=%P")) {
			parents := strings.Fields(line)
			if sh(t, repo, "git merge-base "+parents[0]+" "+parents[1]+" || echo none") != "none\n" { // unrelated histories cannot be combined
				all = append(all, commitPair{parents[0], parents[1]})
			}
		}
		begun := time.Now()
		clean, conflicts := compareWithGit(t, repo, all, func(int) []fleet.Strategy { return []fleet.Strategy{fleet.Merge} })
		t.Logf("%s: %d merges that git makes, %d with conflicts, in %s", filepath.Base(repo), clean, conflicts, time.Since(begun).Round(time.Second))
	}
}

// quickPairs is the default number of pairs. With at most so many pairs, TestCombineAgreesWithGit checks one strategy for each.
const quickPairs = 100

// TestCombineAgreesWithGit checks that Combine gives the results of "git merge" and "git rebase". FLEET_TEST_PAIRS is the number of generated
// pairs, and FLEET_SEED is the seed of the random numbers.
func TestCombineAgreesWithGit(t *testing.T) {
	t.Parallel()
	n, _ := strconv.Atoi(os.Getenv("FLEET_TEST_PAIRS"))
	n = cmp.Or(n, quickPairs)
	seed, _ := strconv.ParseUint(os.Getenv("FLEET_SEED"), 10, 64)
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	g.writePairs(n)
	repo := t.TempDir()
	sh(t, repo, "git init -q -b main; git config merge.evil.driver 'touch "+repo+"/evil; exit 1'; git config core.quotePath true")
	cmd := exec.Command("git", "-c", "core.protectNTFS=false", "fast-import", "--quiet")
	cmd.Dir, cmd.Stdin = repo, &g.out
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var all []commitPair
	for i := range n {
		lines := strings.Fields(sh(t, repo, fmt.Sprintf("git rev-parse ours-%d theirs-%d", i, i)))
		all = append(all, commitPair{lines[0], lines[1]})
	}
	sh(t, repo, "git config --unset merge.evil.driver") // git itself would run the driver; without it, git merges the file as text
	clean, conflicts := compareWithGit(t, repo, all, func(i int) []fleet.Strategy {
		each := []fleet.Strategy{fleet.Merge, fleet.Squash, fleet.Rebase}
		if n <= quickPairs { // one strategy for each pair, in turn
			return each[i%len(each):][:1]
		}
		return each
	})
	t.Logf("%d pairs that git merges, %d with conflicts", clean, conflicts)
	require.Greater(t, clean, n/8)
	require.Greater(t, conflicts, n/8)
}
