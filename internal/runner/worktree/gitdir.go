package worktree

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/sandbox"
)

// separate reports whether the tree has its own git directory. A tree of an earlier version has none until Migrate
// creates it.
func (t Tree) separate() bool {
	if t.GitDir == "" {
		return false
	}
	info, err := os.Stat(filepath.Join(t.GitDir, "objects"))
	return err == nil && info.IsDir()
}

// initGitDir creates the agent's git directory, with the agent's branch at the commit. It replaces a git directory that
// an interrupted call left.
func (g *Git) initGitDir(ctx context.Context, t Tree, have refSet, commit string) error {
	k := &refRecord{Given: have.given(t.UID), Published: map[string]published{t.Branch: {t.Branch, commit}}}
	delete(k.Given, "refs/heads/"+t.Branch)
	dir, err := g.newGitDir(ctx, t, have)
	if err != nil {
		return err
	}
	own := "refs/heads/" + t.Branch
	for name, text := range map[string]string{"HEAD": "ref: " + own + "\n", own: commit + "\n"} {
		if err := writeNew(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	if err := t.writeRecord(k); err != nil {
		return err
	}
	return os.Rename(dir, t.GitDir)
}

// newGitDir creates a git directory for the tree and returns its path, which is next to t.GitDir. It removes an
// existing t.GitDir. The new directory uses the repository's objects. It has copies of the repository's refs,
// configuration and hooks, but no HEAD.
func (g *Git) newGitDir(ctx context.Context, t Tree, have refSet) (dir string, err error) {
	common := commonDir(t.Repository)
	if common == "" {
		return "", noRepository(t.Repository)
	}
	config, err := g.copyConfig(ctx, common)
	if err != nil {
		return "", err
	}
	dir = t.GitDir + ".new"
	for _, old := range []string{dir, t.GitDir} {
		if err := RemoveAll(old); err != nil {
			return "", err
		}
	}
	for _, sub := range []string{"objects/pack", "refs/heads", "refs/tags", "info", "hooks"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return "", err
		}
	}
	files := map[string]string{
		"config":                  config,
		"objects/info/alternates": alternates(withAlternates(filepath.Join(common, "objects"))),
		"packed-refs":             packed(have, t),
	}
	for name, r := range have {
		if r.to != "" && strings.HasPrefix(name, "refs/remotes/") {
			files[name] = "ref: " + r.to + "\n"
		}
	}
	for _, name := range []string{"info/exclude", "info/attributes", "shallow"} {
		if b, err := agentfile.Read(filepath.Join(common, name), maxCopied); err == nil {
			files[name] = string(b)
		}
	}
	for name, text := range files {
		if err := writeNew(filepath.Join(dir, name), text); err != nil {
			return "", err
		}
	}
	return dir, copyHooks(filepath.Join(common, "hooks"), filepath.Join(dir, "hooks"))
}

// maxCopied limits the size of a file that is copied from a repository, in bytes.
const maxCopied = 16 << 20

func writeNew(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// packed returns the content of the file packed-refs with the refs that the agent gets, except the agent's branch.
func packed(have refSet, t Tree) string {
	var b bytes.Buffer
	for name, oid := range have.given(t.UID) {
		if name != "refs/heads/"+t.Branch {
			fmt.Fprintf(&b, "%s %s\n", oid, name)
		}
	}
	return b.String()
}

// copyHooks copies the hooks of the repository, so that they run when the agent commits.
func copyHooks(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil //nolint:nilerr // the repository has no hooks
	}
	for _, e := range entries {
		path := filepath.Join(from, e.Name())
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o100 == 0 || info.Size() > maxCopied || strings.HasSuffix(e.Name(), ".sample") {
			continue
		}
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), b, 0o700)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// notCopied matches settings that describe the layout of a repository, or that are not valid in another repository.
var notCopied = regexp.MustCompile(`^(core\.(bare|worktree|fsmonitor|untrackedcache|sparsecheckout.*|splitindex|repositoryformatversion)|include\..*|includeif\..*|index\.sparse|extensions\.(worktreeconfig|refstorage)|gc\..*|maintenance\..*)$`)

// copyConfig returns the repository's configuration for the agent's git directory: remotes, filters and preferences.
// Programs that this configuration names run as the agent.
func (g *Git) copyConfig(ctx context.Context, common string) (string, error) {
	list, err := g.run(ctx, "/", "config", "--file", filepath.Join(common, "config"), "--includes", "-z", "--list")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	version := "0"
	for setting := range strings.SplitSeq(list, "\x00") {
		key, value, has := strings.Cut(setting, "\n")
		i, j := strings.IndexByte(key, '.'), strings.LastIndexByte(key, '.')
		if i < 0 || notCopied.MatchString(key) {
			continue
		}
		if strings.HasPrefix(key, "extensions.") {
			version = "1"
		}
		if i == j {
			fmt.Fprintf(&b, "[%s]\n", key[:i])
		} else {
			fmt.Fprintf(&b, "[%s %s]\n", key[:i], quoteConfig(key[i+1:j]))
		}
		if b.WriteString("\t" + key[j+1:]); has {
			b.WriteString(" = " + quoteConfig(value))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "[core]\n\tbare = false\n\trepositoryformatversion = %s\n", version)
	return b.String(), nil
}

// quoteConfig quotes a value for a git configuration.
func quoteConfig(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(s) + `"`
}

// open returns a view of the agent's tree. Objects that git writes stay in the view; see collect.
func (g *Git) open(t Tree) (*view, error) {
	common := commonDir(t.Repository)
	if common == "" {
		return nil, noRepository(t.Repository)
	}
	dir := t.Dir
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		dir = t.GitDir // without a working directory, the refs can still be read
	}
	v, err := g.newView(dir, t.GitDir, true)
	if err != nil {
		return nil, err
	}
	v.policy.Read = append(v.policy.Read, append(Shared(t.Repository), t.Dir, t.GitDir)...)
	v.policy.Write = append(v.policy.Write, existing(filepath.Join(common, "lfs"))...)
	if err := g.fillOwn(v, t, common); err != nil {
		v.close()
		return nil, fmt.Errorf("view of %s: %w", t.Dir, err)
	}
	return v, nil
}

func (g *Git) fillOwn(v *view, t Tree, common string) error {
	settings, err := readSettings(t.GitDir)
	if err != nil {
		return err
	}
	if err := v.link(t.GitDir, []string{"refs", "packed-refs", "shallow"}); err != nil {
		return err
	}
	if err := v.link(common, []string{"lfs"}); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(v.tmp, "objects", "pack"), 0o700); err != nil {
		return err
	}
	from := append([]string{filepath.Join(t.GitDir, "objects")}, withAlternates(filepath.Join(common, "objects"))...)
	if err := writeNew(filepath.Join(v.tmp, "objects", "info", "alternates"), alternates(from)); err != nil {
		return err
	}
	return v.fill(t.GitDir, t.GitDir, viewConfig(settings, false))
}

// asAgent returns the policy for git commands that change the agent's git directory. These commands use the agent's
// configuration, so they may do only what the agent may do.
func (g *Git) asAgent(t Tree) *sandbox.Policy {
	return &sandbox.Policy{
		Write: []string{t.GitDir}, Read: slices.Concat(sandbox.System(), g.config(), Shared(t.Repository)), Network: sandbox.Offline,
	}
}

// headOf returns the commit of the agent's HEAD.
func (g *Git) headOf(ctx context.Context, t Tree) (string, error) {
	if oid := t.quickHead(); oid != "" {
		return oid, nil
	}
	v, err := g.open(t)
	if err != nil {
		return "", err
	}
	defer v.close()
	return v.run(ctx, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
}

// quickHead returns the same commit as headOf, without running git. It returns an empty text if it cannot find the
// commit in this way.
func (t Tree) quickHead() string {
	root, err := os.OpenRoot(t.GitDir)
	if err != nil {
		return ""
	}
	defer func() { _ = root.Close() }()
	head := readIn(root, "HEAD")
	if name, ok := strings.CutPrefix(head, "ref: "); ok && fs.ValidPath(name) && strings.HasPrefix(name, "refs/heads/") {
		head = readIn(root, name)
	}
	if !oidPattern.MatchString(head) {
		return ""
	}
	return head
}

// readIn returns the trimmed content of a small regular file. It returns an empty text if the file cannot be read.
func readIn(root *os.Root, name string) string {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, maxLink))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
