package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A run's spare files reserve disk space for the files that must be written even if the disk is full: claim, child, lost and
// exit.json.
const (
	spareCount = 4
	spareSize  = 4096 // one block; more than any of these files needs
)

func spareName(i int) string { return fmt.Sprintf(".spare-%d", i) }

// SpareFiles returns the names and the content of a run's spare files. They are written before the shim is started.
func SpareFiles() map[string]string {
	files := map[string]string{}
	for i := range spareCount {
		files[spareName(i)] = strings.Repeat("\n", spareSize)
	}
	return files
}

// removeSpares removes the unused spare files.
func (r Run) removeSpares() {
	for i := range spareCount {
		_ = os.Remove(r.Path(spareName(i)))
	}
}

// writeSpare writes the data into a spare file of the directory, and returns the file's new path. It returns ENOSPC
// if no spare file can be used.
func writeSpare(dir string, data []byte) (string, error) {
	for i := range spareCount {
		path := filepath.Join(dir, spareName(i))
		renamed := path + fmt.Sprintf("-%d", os.Getpid())
		if len(data) > spareSize || os.Rename(path, renamed) != nil {
			continue
		}
		f, err := os.OpenFile(renamed, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue // the agent has replaced the spare file
		}
		if info, serr := f.Stat(); serr != nil || !info.Mode().IsRegular() || info.Size() != spareSize {
			_ = f.Close()
			continue
		}
		_, err = f.Write(data)
		if err = errors.Join(err, f.Truncate(int64(len(data))), f.Sync(), f.Close()); err == nil {
			return renamed, nil
		}
		_ = os.Remove(renamed)
	}
	return "", syscall.ENOSPC
}

// isFull reports whether err means that the disk or the quota is full.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
