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

	"fleet/internal/place/agentfile"
)

// scpPattern matches host:path and user@host:path.
var scpPattern = regexp.MustCompile(`^[A-Za-z0-9._-]+(@[A-Za-z0-9._-]+)?:[^\\]`)

// IsRemote reports whether the source is a URL, also with file://, or host:path. Fleet makes a mirror of such a source.
func IsRemote(source string) bool {
	return strings.Contains(source, "://") || (scpPattern.MatchString(source) && !filepath.IsAbs(source))
}

// MirrorPath returns the path of the source's mirror below dir.
func MirrorPath(dir, source string) string {
	sum := sha256.Sum256([]byte(source))
	name := strings.TrimSuffix(source[strings.LastIndexAny(source, "/:")+1:], ".git")
	name = regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(name, "-")
	return filepath.Join(dir, name+"-"+hex.EncodeToString(sum[:4])+".git")
}

// Fetch updates the mirror from the source, and creates the mirror if it does not exist. It does not change the agents'
// branches, because it stores the branches of the source as remote branches. So a slow source delays only another Fetch.
// Later calls for agents of the mirror use the password of the source.
func (g *Git) Fetch(ctx context.Context, source, mirror string) error {
	unlock, err := g.lock(ctx, "fetches of "+mirror)
	if err != nil {
		return err
	}
	defer unlock()
	g.sources.Store(mirror, source)
	if _, err := os.Stat(mirror); errors.Is(err, os.ErrNotExist) {
		if err := g.clone(ctx, source, mirror); err != nil {
			return err
		}
	}
	v, err := g.openRepository(mirror)
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
	fetch := []string{"fetch", "--prune", "--quiet", "--no-recurse-submodules", "origin"}
	if _, err = v.run(ctx, fetch...); err != nil && strings.Contains(err.Error(), "cannot lock ref") { // MoveSource has moved it meanwhile
		_, err = v.run(ctx, fetch...)
	}
	if err != nil {
		return err
	}
	// A missing default branch in the source does not matter if the project names a branch.
	_, _ = v.run(ctx, "remote", "set-head", "origin", "--auto")
	return ctx.Err()
}

// clone creates the mirror atomically.
func (g *Git) clone(ctx context.Context, source, mirror string) error {
	if err := os.MkdirAll(filepath.Dir(mirror), 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(g.temp, "clone-*")
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
	if err := addOrigin(tmp, source); err != nil {
		return err
	}
	return os.Rename(tmp, mirror)
}

// addOrigin adds the remote origin to the configuration of a mirror that has no remote yet. The URL contains the password
// of the source. The git directories of agents get the URL from there.
func addOrigin(dir, source string) error {
	text := "[remote \"origin\"]\n\turl = " + quoteConfig(source) + "\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
	return agentfile.Append(filepath.Join(dir, "config"), []byte(text))
}
