package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var scp = regexp.MustCompile(`^[A-Za-z0-9._-]+(@[A-Za-z0-9._-]+)?:[^\\]`)

// Remote reports whether the repository is on another machine, so that a mirror is needed: a URL, or host:path.
func Remote(source string) bool {
	return strings.Contains(source, "://") || (scp.MatchString(source) && !filepath.IsAbs(source))
}

// Mirror returns the path of a remote repository's mirror below dir.
func Mirror(dir, source string) string {
	sum := sha256.Sum256([]byte(source))
	name := strings.TrimSuffix(source[strings.LastIndexAny(source, "/:")+1:], ".git")
	name = regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(name, "-")
	return filepath.Join(dir, name+"-"+hex.EncodeToString(sum[:4])+".git")
}

// Fetch updates the mirror from the source, and creates the mirror if it does not exist. It does not change the agents'
// branches, because it stores the branches of the source as remote branches.
func (g *Git) Fetch(ctx context.Context, source, mirror string) error {
	defer g.lock(mirror)()
	g.sources.Store(mirror, source)
	if _, err := os.Stat(mirror); errors.Is(err, os.ErrNotExist) {
		if err := g.clone(ctx, source, mirror); err != nil {
			return err
		}
	}
	v, err := g.view(mirror, false)
	if err != nil {
		return err
	}
	defer v.close()
	v.policy = nil // git needs the network and the user's keys
	plain, env := withoutPassword(source)
	v.env = append(v.env, env...)
	if _, err := v.run(ctx, "remote", "add", "origin", plain); err != nil {
		return err
	}
	if _, err := v.run(ctx, "fetch", "--prune", "--quiet", "--no-recurse-submodules", "origin"); err != nil {
		return err
	}
	// A missing default branch in the source does not matter if the project names a branch.
	_, err = v.run(ctx, "remote", "set-head", "origin", "--auto")
	if ctx.Err() != nil {
		return err
	}
	return nil
}

// clone creates the mirror atomically.
func (g *Git) clone(ctx context.Context, source, mirror string) error {
	parent := filepath.Dir(mirror)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(parent, ".clone-*")
	if err != nil {
		return err
	}
	defer func() { _ = RemoveAll(tmp) }()
	plain, env := withoutPassword(source)
	for _, args := range [][]string{
		{"init", "--quiet", "--bare"},
		{"fetch", "--quiet", plain, "+refs/heads/*:refs/remotes/origin/*"},
	} {
		if _, err := g.runWith(ctx, env, tmp, args...); err != nil {
			return err
		}
	}
	if err := setURL(tmp, source); err != nil {
		return err
	}
	return os.Rename(tmp, mirror)
}

// Check returns an error if the directory is not a usable repository on this machine.
func (g *Git) Check(ctx context.Context, dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return &Error{Message: "there is no directory " + dir}
	}
	_, err := g.run(ctx, dir, "rev-parse", "--git-common-dir")
	return err
}

// base returns the commit at which a new branch starts. name is a branch, a tag or a commit. If it is empty, base
// returns the default branch of a mirror, or what people have checked out in another repository.
func (g *Git) base(ctx context.Context, repository, name string) (string, error) {
	candidates := []string{"refs/remotes/origin/" + name, name}
	if name == "" {
		candidates = []string{"refs/remotes/origin/HEAD", "HEAD"}
		if bare, _ := g.run(ctx, repository, "rev-parse", "--is-bare-repository"); bare != "true" {
			candidates = []string{"HEAD"} // what people have checked out there
		}
	} else if bare, _ := g.run(ctx, repository, "rev-parse", "--is-bare-repository"); bare != "true" {
		candidates = []string{name, "refs/remotes/origin/" + name}
	}
	for _, c := range candidates {
		commit, err := g.read(ctx, repository, "rev-parse", "--quiet", "--verify", "--end-of-options", c+"^{commit}")
		if err == nil {
			return commit, nil
		}
		if ctx.Err() != nil {
			return "", err
		}
	}
	if name == "" {
		return "", &Error{Message: "the repository has no commit: make one, or set the project's branch"}
	}
	return "", &Error{Message: "the repository has no branch, tag or commit \"" + name + "\": correct the project's branch"}
}
