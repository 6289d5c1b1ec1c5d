package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapped maps the beginning of the file into memory, for reading.
func mapped(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmap(memory []byte) error { return unix.Munmap(memory) }
