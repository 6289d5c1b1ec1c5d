//go:build unix

package gitfiles

import (
	"errors"
	"io"
	"os"

	"fleet/internal/place/agentfile"
)

// MaxIndex limits the size of an index that is copied, in bytes.
const MaxIndex = 256 << 20

// IndexCopy names the files for CopyIndex.
type IndexCopy struct {
	From string `json:"from"` // the index of an agent
	To   string `json:"to"`   // must not exist
}

// CopyIndex copies the index. The copy gets the original's modification time, because git trusts an entry of the index only if the
// entry's file is older than the index.
func CopyIndex(c IndexCopy) error {
	in, err := agentfile.Open(c.From)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if info.Size() > MaxIndex {
		return errors.New("the index is too large")
	}
	out, err := os.OpenFile(c.To, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, MaxIndex))
	return errors.Join(err, out.Close(), os.Chtimes(c.To, info.ModTime(), info.ModTime()))
}
