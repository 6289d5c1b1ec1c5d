package worktree

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/gitfiles"
	"fleet/internal/runner/sandbox"
)

// hasOwnGitDir reports whether the tree has its own git directory. It does not look at the disk, because the
// agent can change the files there.
func (t Tree) hasOwnGitDir() bool { return t.GitDir != "" }

// initGitDir creates the agent's git directory, with the agent's branch at the commit of p. refs are the refs of the
// repository without p. initGitDir replaces a git directory that an interrupted call left.
func (g *Git) initGitDir(ctx context.Context, t Tree, refs refSet, p publishedBranch) error {
	record := &refRecord{FromRepository: refs.refsForAgent(t.UID), Published: map[string]publishedBranch{t.Branch: p}}
	delete(record.FromRepository, "refs/heads/"+t.Branch)
	dir, err := g.newGitDir(ctx, t, refs)
	if err != nil {
		return err
	}
	branchRef := "refs/heads/" + t.Branch
	for name, text := range map[string]string{"HEAD": "ref: " + branchRef + "\n", branchRef: p.OID + "\n"} {
		if err := writeFile(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	if err := t.writeRecord(record); err != nil {
		return err
	}
	return os.Rename(dir, t.GitDir)
}

// newGitDir creates a git directory for the tree and returns its path, which is next to t.GitDir. It removes an
// existing t.GitDir. The new directory uses the repository's objects. It has copies of the repository's refs,
// configuration and hooks, but no HEAD.
func (g *Git) newGitDir(ctx context.Context, t Tree, refs refSet) (dir string, err error) {
	common := commonDir(t.Repository)
	if common == "" {
		return "", noRepositoryError(t.Repository)
	}
	config, hooks, err := g.configForAgent(ctx, common)
	if err != nil {
		return "", err
	}
	if dir, err = t.makeGitDir(common, config, refs); err != nil {
		return "", err
	}
	return dir, copyHooks(hooks, filepath.Join(dir, "hooks"))
}

// makeGitDir works like newGitDir, with the given configuration and without hooks.
func (t Tree) makeGitDir(common, config string, refs refSet) (dir string, err error) {
	worktree, err := filepath.Rel(t.GitDir, t.Dir)
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
		// Claude Code creates worktrees only if core.worktree names the directory. The relative path stays correct if both
		// directories are moved.
		"config":                  config + "[core]\n\tworktree = " + quoteConfig(worktree) + "\n" + t.Settings,
		"objects/info/alternates": formatAlternates(withAlternates(filepath.Join(common, "objects"))),
		"packed-refs":             packedRefs(refs, t),
	}
	for name, r := range refs {
		if r.target != "" && strings.HasPrefix(name, "refs/remotes/") {
			files[name] = "ref: " + r.target + "\n"
		}
	}
	for _, name := range []string{"info/exclude", "info/attributes", "shallow"} {
		if b, err := agentfile.Read(filepath.Join(common, name), maxCopied); err == nil {
			files[name] = string(b)
		}
	}
	for name, text := range files {
		if err := writeFile(filepath.Join(dir, name), text); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// maxCopied limits the size of a file that is copied from a repository, in bytes.
const maxCopied = 16 << 20

// writeFile writes the file, and creates its directory if necessary.
func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// packedRefs returns the content of the file packed-refs with the refs that the agent gets, except the agent's branch.
func packedRefs(refs refSet, t Tree) string {
	var b bytes.Buffer
	for name, oid := range refs.refsForAgent(t.UID) {
		if name != "refs/heads/"+t.Branch {
			fmt.Fprintf(&b, "%s %s\n", oid, name)
		}
	}
	return b.String()
}

// openAgentTree returns a view of the agent's tree. Objects that git writes stay in the view; see collect.
func (g *Git) openAgentTree(ctx context.Context, t Tree) (*view, error) {
	common := commonDir(t.Repository)
	if common == "" {
		return nil, noRepositoryError(t.Repository)
	}
	info, err := sandbox.ReadGit(ctx, t.GitDir)
	if err != nil {
		return nil, err
	}
	dir := t.Dir
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		dir = t.GitDir // without a working directory, the refs can still be read
	}
	return withFallbackDir(common, g.temp, func(temp string) (*view, error) {
		v, err := g.newView(temp, dir, t.GitDir, true)
		if err != nil {
			return nil, err
		}
		v.policy.Read = append(v.policy.Read, append(ReadableDirs(t.Repository), t.Dir, t.GitDir)...)
		v.policy.Write = append(v.policy.Write, existingPaths(filepath.Join(common, "lfs"))...)
		if err := v.fillAgentTree(t, common, info); err != nil {
			v.close()
			return nil, fmt.Errorf("view of %s: %w", t.Dir, err)
		}
		return v, nil
	})
}

// fillAgentTree completes the view of an agent's tree. info describes the agent's git directory.
func (v *view) fillAgentTree(t Tree, common string, info gitfiles.Info) error {
	settings := info.Settings
	if info.ConfigBroken { // the agent has damaged it; the refs can perhaps still be read
		commonInfo, err := gitfiles.Read(common)
		if err != nil {
			return err
		}
		settings = commonInfo.Settings
	}
	settings = slices.DeleteFunc(settings, isSharedRepository) // the sandbox prevents git from setting the group of directories
	if err := v.symlink(t.GitDir, []string{"refs", "packed-refs", "shallow"}); err != nil {
		return err
	}
	if err := v.symlink(common, []string{"lfs"}); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(v.gitDir, "objects", "pack"), 0o700); err != nil {
		return err
	}
	from := append([]string{filepath.Join(t.GitDir, "objects")}, withAlternates(filepath.Join(common, "objects"))...)
	if err := writeFile(filepath.Join(v.gitDir, "objects", "info", "alternates"), formatAlternates(from)); err != nil {
		return err
	}
	return v.fill(t.GitDir, t.GitDir, viewConfig(settings, false), "refs/heads/"+t.Branch, info)
}

// agentPolicy returns the policy for git commands that change the agent's git directory. These commands use the agent's
// configuration, so they may do only what the agent may do.
func (g *Git) agentPolicy(t Tree) *sandbox.Policy {
	return &sandbox.Policy{
		Write: []string{t.GitDir}, Read: slices.Concat(sandbox.SystemPaths(), g.configPaths(), ReadableDirs(t.Repository)), Network: sandbox.Offline, Limits: g.limits(),
	}
}

// headOf returns the commit of the agent's HEAD.
func (g *Git) headOf(ctx context.Context, t Tree) (string, error) {
	v, err := g.openAgentTree(ctx, t)
	if err != nil {
		return "", err
	}
	defer v.close()
	return v.run(ctx, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
}
