package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A run's spare files hold disk space for what must be written down however full the disk is: who supervises the run,
// which process its child is, and how it ended.
const (
	spares    = 3
	spareSize = 4096 // a block; more than any of these files needs
)

func spareName(i int) string { return fmt.Sprintf(".spare-%d", i) }

// Spares returns the spare files of a run with their content. They are written before the shim is started.
func Spares() map[string]string {
	files := map[string]string{}
	for i := range spares {
		files[spareName(i)] = strings.Repeat("\n", spareSize)
	}
	return files
}

// release removes the spare files that were not needed.
func (r Run) release() {
	for i := range spares {
		_ = os.Remove(r.Path(spareName(i)))
	}
}

// writeSpare writes the data over a spare file of the directory and returns its new name.
func writeSpare(dir string, data []byte) (string, error) {
	for i := range spares {
		path := filepath.Join(dir, spareName(i))
		taken := path + fmt.Sprintf("-%d", os.Getpid())
		if len(data) > spareSize || os.Rename(path, taken) != nil {
			continue
		}
		f, err := os.OpenFile(taken, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue // the agent has put something else in its place
		}
		if info, serr := f.Stat(); serr != nil || !info.Mode().IsRegular() || info.Size() != spareSize {
			_ = f.Close()
			continue
		}
		_, err = f.Write(data)
		if err = errors.Join(err, f.Truncate(int64(len(data))), f.Sync(), f.Close()); err == nil {
			return taken, nil
		}
		_ = os.Remove(taken)
	}
	return "", syscall.ENOSPC
}

// isFull reports whether err means that the disk, or what of it one may use, is full.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
