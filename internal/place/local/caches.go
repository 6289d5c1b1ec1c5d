package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"fleet/internal/runner"
	"fleet/internal/runner/filetree"
	"fleet/internal/runner/sandbox"
)

// CacheSharing says which agents of a project share the caches of programs.
type CacheSharing string

// These are the values of CacheSharing.
const (
	CachesOfOwner CacheSharing = "owner" // all agents of an owner share caches
	CachesOfAgent CacheSharing = "agent" // each agent has its own caches
)

// DefaultCacheMax is the default of Config.CacheMax, in bytes.
const DefaultCacheMax = 20 << 30

// A shared cache is removed if no run has started with it for cacheRetention. It is not measured if no run has started with it
// for cacheIdle, because it has probably not grown since it was last measured.
const (
	cacheRetention = 7 * 24 * time.Hour
	cacheIdle      = 24 * time.Hour
)

// programCache is a cache of a program that agents share. A shared cache must never contain programs that are found through
// PATH. So the whole GOPATH, the whole CARGO_HOME, and npm's directory, which has programs in _npx, cannot be shared.
type programCache struct {
	dir              string            // the name of its directory in a shared cache
	variable         string            // names the variable that tells the program where the cache is
	overrideVariable string            // if this variable is set, the program puts its cache elsewhere
	links            map[string]string // for a program without such a variable: paths of links in the agent's HOME, with their targets below dir
}

var programCaches = []programCache{
	{dir: "go-build", variable: "GOCACHE", overrideVariable: "XDG_CACHE_HOME"},
	{dir: "go-mod", variable: "GOMODCACHE", overrideVariable: "GOPATH"},
	{dir: "pip", variable: "PIP_CACHE_DIR", overrideVariable: "XDG_CACHE_HOME"},
	{dir: "uv", variable: "UV_CACHE_DIR", overrideVariable: "XDG_CACHE_HOME"},
	{dir: "ccache", variable: "CCACHE_DIR", overrideVariable: "XDG_CACHE_HOME"},
	{dir: "npm", links: map[string]string{".npm/_cacache": "."}},
	// cargo unpacks crates into the registry under a lock that is next to the registry.
	{dir: "cargo", links: map[string]string{
		".cargo/registry": ".", ".cargo/.package-cache": ".package-cache", ".cargo/.package-cache-mutate": ".package-cache-mutate",
	}},
}

func (p *Place) cachesDir() string { return filepath.Join(p.config.Dir, "caches") }

// cacheName returns the name of the directory of the shared cache of the owner's agents in the project.
func cacheName(owner, project string) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + project))
	return runner.FileName(project) + "-" + hex.EncodeToString(sum[:16])
}

// shareCaches lets the agent use the shared cache of its owner in the project, and returns the links for its HOME. If the agent
// has its own caches, no record or no owner, shareCaches returns the links with empty targets, so that they are removed. Checks before a
// landing have no owner.
func (p *Place) shareCaches(proj project, r *record, c *confinement) (filetree.Caches, error) {
	caches := filetree.Caches{Dir: p.cachesDir(), Links: map[string]string{}}
	shared := proj.Caches == CachesOfOwner && r != nil && r.Owner != ""
	name := ""
	if shared {
		name = cacheName(r.Owner, proj.Name)
		if err := p.touchCache(filepath.Join(caches.Dir, name)); err != nil {
			return caches, runner.HostError("cannot create the agents' caches", err)
		}
	}
	c.caches = map[string]string{}
	for _, k := range programCaches {
		for link, target := range k.links {
			caches.Links[link] = ""
			if shared {
				caches.Links[link] = path.Join(name, k.dir, target)
			}
		}
		if !shared {
			continue
		}
		dir := filepath.Join(caches.Dir, name, k.dir)
		c.policy.Write = append(c.policy.Write, dir)
		if k.variable != "" {
			c.caches[k.variable] = dir
		}
	}
	return caches, nil
}

// addCaches adds the variables of the shared cache to env. It leaves out programs whose cache the configuration puts elsewhere, and
// adds nothing if the configuration sets another HOME.
func (c *confinement) addCaches(env map[string]string) {
	if env["HOME"] != c.env["HOME"] {
		return
	}
	for _, k := range programCaches {
		dir := c.caches[k.variable]
		_, set := env[k.variable]
		_, overridden := env[k.overrideVariable]
		if dir != "" && !set && !overridden {
			env[k.variable] = dir
		}
	}
}

// touchCache creates the directories of a shared cache, and records in the cache's modification time that a run starts with it.
// Agents can write in the directories of the programs, but cannot replace these directories.
func (p *Place) touchCache(dir string) error {
	p.cachesMu.Lock()
	defer p.cachesMu.Unlock()
	for _, k := range programCaches {
		if err := os.MkdirAll(filepath.Join(dir, k.dir), 0o700); err != nil {
			return err
		}
	}
	return os.Chtimes(dir, time.Time{}, time.Now())
}

// tidyCaches removes shared caches that are no longer used, and shrinks those that are too large.
func (p *Place) tidyCaches(ctx context.Context, now time.Time) error {
	entries, err := os.ReadDir(p.cachesDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return runner.HostError("cannot read the directory of caches", err)
	}
	var errs []error
	for _, e := range entries {
		dir := filepath.Join(p.cachesDir(), e.Name())
		if !strings.HasPrefix(e.Name(), removedPrefix) {
			idle, err := p.retireIdleCache(dir, now)
			switch {
			case err != nil:
				errs = append(errs, err)
				continue
			case idle < cacheRetention:
				if idle < cacheIdle {
					errs = append(errs, p.shrinkCache(ctx, dir))
				}
				continue
			}
			dir = filepath.Join(p.cachesDir(), removedPrefix+e.Name())
		}
		errs = append(errs, sandbox.Remove(ctx, dir))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

// retireIdleCache returns for how long no run has started with the cache. If that is at least cacheRetention, it renames the cache, so
// that the next run creates another one.
func (p *Place) retireIdleCache(dir string, now time.Time) (idle time.Duration, err error) {
	p.cachesMu.Lock()
	defer p.cachesMu.Unlock()
	info, err := os.Stat(dir)
	if err != nil {
		return 0, err
	}
	if idle = now.Sub(info.ModTime()); idle >= cacheRetention {
		err = os.Rename(dir, filepath.Join(filepath.Dir(dir), removedPrefix+filepath.Base(dir)))
	}
	return idle, err
}

// shrinkCache shrinks a cache that is too large. It removes the files that were not used for the longest time. If that is
// impossible, for example because agents have put millions of files into one directory, it empties the cache.
func (p *Place) shrinkCache(ctx context.Context, dir string) error {
	maxBytes := p.config.CacheMax
	if maxBytes < 0 {
		return nil
	}
	s, err := sandbox.Shrink(ctx, filetree.CacheLimit{
		Dir: dir, MaxBytes: maxBytes,
		WholeDirs: []string{"go-mod/cache/vcs/*", "uv/*", "cargo/*/*/*"},
		Keep:      []string{"go-mod/cache/lock", "cargo/.package-cache*"},
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	log := p.config.Logger.With(slog.String("cache", dir), slog.Int64("removed", s.RemovedBytes), slog.Int64("bytes", s.Bytes))
	if err == nil && s.Bytes <= maxBytes {
		if s.RemovedBytes > 0 {
			log.InfoContext(ctx, "agents' cache shrunk")
		}
		return nil
	}
	log.WarnContext(ctx, "agents' cache cannot be shrunk, emptying it", "error", err)
	var errs []error
	for _, k := range programCaches {
		errs = append(errs, sandbox.RemoveContents(ctx, filepath.Join(dir, k.dir)))
	}
	return errors.Join(errs...)
}
