package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"fleet/internal/scratch"
	"fleet/internal/store/postgres"
	"fleet/internal/store/record"
	"fleet/internal/store/sqlite"
)

const (
	// leastSpace and lowSpace are amounts of free disk space, in bytes. With less than leastSpace, a server will soon
	// fail. With less than lowSpace, it works for a while.
	leastSpace = 200 << 20
	lowSpace   = 2 << 30
	// slowQuery is the latency of a query above which calls become slow.
	slowQuery = 50 * time.Millisecond
	// clockWarning and clockFailure are differences between two clocks. From clockWarning on, people see wrong times. From clockFailure
	// on, credentials and expiries are wrong too.
	clockWarning = 5 * time.Second
	clockFailure = time.Minute
)

// checkDataDir examines the data directory and its disk.
func (d *doctor) checkDataDir(ctx context.Context) {
	dir := d.cfg.Data
	if err := checkData(dir); err != nil {
		d.add(verdictFailed, "data", "", "%v", err)
		return
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.add(verdictOK, "data", "", "%s does not exist yet, the server creates it", dir)
	case err != nil:
		d.add(verdictFailed, "data", "give the server's user access to it, or set data", "%v", err)
		return
	case !info.IsDir():
		d.add(verdictFailed, "data", "name a directory in the setting data", "%s is not a directory", dir)
		return
	default:
		if err := checkWritable(dir); err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			d.add(verdictFailed, "data", "give the server's user the right to write to it, or set data", "%v", err)
			return
		}
		if h, ok := holderOf(dir); ok {
			d.add(verdictOK, "data", "", "%s, in use by %s", dir, h)
		} else {
			d.add(verdictOK, "data", "", "%s", dir)
		}
	}
	for _, err := os.Stat(dir); err != nil && dir != filepath.Dir(dir); _, err = os.Stat(dir) {
		dir = filepath.Dir(dir)
	}
	free, err := freeSpace(dir)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
	case err != nil:
		d.add(verdictFailed, "disk", "check the disk of "+dir, "%v", err)
	default:
		d.checkDisk(ctx, dir, free)
	}
}

// checkDisk reports that free bytes are free on the disk of the data directory dir, and how to free more if they are few.
func (d *doctor) checkDisk(ctx context.Context, dir string, free uint64) {
	switch {
	case free < leastSpace:
		d.add(verdictFailed, "disk", "free space on the disk of "+dir+spaceAdvice(ctx, dir, free), "only %s free", formatBytes(free))
	case free < lowSpace:
		d.add(verdictWarning, "disk", "free space on the disk of "+dir+spaceAdvice(ctx, dir, free), "only %s free", formatBytes(free))
	default:
		d.add(verdictOK, "disk", "", "%s free", formatBytes(free))
	}
}

// spaceAdvice says what uses more space in the data directory than is free, and how to free it.
func spaceAdvice(ctx context.Context, dir string, free uint64) (text string) {
	kinds := []struct {
		what, next string
		files      []string
		size       uint64
	}{
		{what: "agents", next: "`fleet agent delete` frees it unless their work is kept", files: []string{"agents"}},
		{what: "kept work", next: "`fleet kept list` shows it", files: []string{"kept"}},
		{what: "caches of agents", next: "`local.cache_max` limits them, and what is in caches/ can be removed", files: []string{"caches"}},
		{what: "the database", next: "deleted tasks leave room in it for new ones, but the file does not shrink", files: []string{"fleet.db", "fleet.db-wal"}},
	}
	for i := range kinds {
		for _, f := range kinds[i].files {
			kinds[i].size += diskUsage(ctx, filepath.Join(dir, f))
		}
	}
	for _, k := range kinds {
		if k.size > free {
			text += fmt.Sprintf("; %s: %s in %s (%s)", k.what, formatBytes(k.size), dir, k.next)
		}
	}
	return text
}

// diskUsage returns how much space the file or directory uses, in bytes, as far as this user can see it and until ctx ends.
func diskUsage(ctx context.Context, path string) (n uint64) {
	_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return filepath.SkipAll
		}
		if err != nil {
			return nil //nolint:nilerr // what cannot be read is left out
		}
		if info, err := e.Info(); err == nil {
			n += spaceOf(info)
		}
		return nil
	})
	return n
}

// checkWritable returns an error if this user cannot create and remove files in the directory.
func checkWritable(dir string) error {
	f, err := scratch.CreateTemp(filepath.Join(dir, "doctor"))
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// checkStore examines the database.
func (d *doctor) checkStore(ctx context.Context) {
	if d.cfg.Store != "" {
		d.checkPostgres(ctx)
		return
	}
	if err := d.cfg.checkImported(); err != nil {
		d.add(verdictFailed, "store", "set store to the Postgres database", "%v", err)
		return
	}
	start := time.Now()
	schema, err := sqlite.Schema(ctx, d.cfg.sqlitePath())
	took := time.Since(start)
	if errors.Is(err, fs.ErrNotExist) {
		d.add(verdictOK, "store", "", "%s does not exist yet, the server creates it", d.cfg.sqlitePath())
		return
	}
	if err != nil {
		d.add(verdictFailed, "store", "restore a backup if the file is damaged (docs/operate/backup.md)", "%s cannot be read: %v", d.cfg.sqlitePath(), err)
		return
	}
	var size int64
	if info, err := os.Stat(d.cfg.sqlitePath()); err == nil {
		size = info.Size()
	}
	d.checkSchema("SQLite", schema, fmt.Sprintf("%s, %s", d.cfg.sqlitePath(), formatBytes(uint64(size))), took) //nolint:gosec // a size
}

// checkPostgres examines the Postgres database.
func (d *doctor) checkPostgres(ctx context.Context) {
	asked := time.Now()
	x, err := postgres.Examine(ctx, d.cfg.Store)
	if err != nil {
		d.add(verdictFailed, "store", "correct the setting store, the database, or the network to it (docs/operate/postgres.md)", "%s: %v", d.cfg.shownStore(), err)
		return
	}
	d.checkSchema("Postgres "+x.Version, x.Schema, fmt.Sprintf("%s, %s", d.cfg.shownStore(), formatBytes(uint64(x.Size))), x.Latency) //nolint:gosec // a size
	d.checkClock("the store's", asked, x.Clock)
}

// checkSchema reports the version of a store's schema and the latency of its queries. kind is the program of the store, for example
// Postgres and its version. where is the address or path of the store with its size.
func (d *doctor) checkSchema(kind string, schema record.Schema, where string, latency time.Duration) {
	have, want := schema.Have, schema.Want
	switch {
	case schema.Newer() && schema.Usable():
		d.add(verdictWarning, "store", "upgrade Fleet again when the cause of the rollback is gone", "%s: a newer Fleet has upgraded the schema to version %d, and this Fleet, which knows versions up to %d, can work with it", where, have, want)
	case schema.Newer():
		d.add(verdictFailed, "store", "start the Fleet that has upgraded it", "%s: the schema has version %d, and this Fleet knows versions up to %d", where, have, want)
	case have < want:
		d.add(verdictWarning, "store", "`fleet migrate up` upgrades it, and `fleet serve` does too; back up first", "%s: the schema has version %d, and this Fleet needs %d", where, have, want)
	case latency > slowQuery:
		d.add(verdictWarning, "store", "check the load of the database, its disk and the network to it", "%s, schema %d, %s, a query takes %s", kind, have, where, latency.Round(time.Millisecond))
	default:
		d.add(verdictOK, "store", "", "%s, schema %d, %s, a query takes %s", kind, have, where, latency.Round(100*time.Microsecond))
	}
}

// checkClock compares this machine's clock with another clock. whose names the other clock, and shown is the time that
// it showed at a moment between asked and now. checkClock does nothing if shown is zero. It reports the least possible difference, so a slow answer
// does not count as a wrong clock.
func (d *doctor) checkClock(whose string, asked, shown time.Time) {
	if shown.IsZero() {
		return
	}
	difference := max(asked.Sub(shown), time.Until(shown), 0).Round(time.Second)
	next := "synchronise the clocks of both machines, for example with chrony"
	switch {
	case difference >= clockFailure:
		d.add(verdictFailed, "clock", next, "this machine's clock and %s differ by %s", whose, difference)
	case difference >= clockWarning:
		d.add(verdictWarning, "clock", next, "this machine's clock and %s differ by %s", whose, difference)
	default:
		d.add(verdictOK, "clock", "", "agrees with %s", whose)
	}
}

// formatBytes returns the size with four digits in the largest unit of which it has at least one.
func formatBytes(n uint64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	i, f := 0, float64(n)
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	return fmt.Sprintf("%.4g %s", f, units[i])
}
