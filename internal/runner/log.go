package runner

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/driver"
)

// Log returns the last n lines of the agent's log, oldest first, and whether the log has more lines.
func (h Home) Log(n int) (lines []string, truncated bool, err error) {
	f, err := agentfile.Open(h.path("log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, HostError("cannot read the agent's log", err)
	}
	defer func() { _ = f.Close() }()
	lines, truncated, err = lastLines(f, n)
	if err != nil {
		return nil, false, HostError("cannot read the agent's log", err)
	}
	return lines, truncated, nil
}

// lastLines returns the last n lines of a file, and whether the file has more lines. It reads only the end of the file.
func lastLines(f *os.File, n int) ([]string, bool, error) {
	start, err := f.Seek(0, io.SeekEnd)
	if err != nil || start == 0 {
		return nil, false, err
	}
	if n <= 0 {
		return nil, true, nil
	}
	const block = 16 << 10
	var data []byte
	for start > 0 && bytes.Count(data, []byte{'\n'}) <= n {
		size := min(block, start)
		start -= size
		part := make([]byte, size)
		if _, err := f.ReadAt(part, start); err != nil {
			return nil, false, err
		}
		data = append(part, data...)
	}
	lines := strings.Split(strings.TrimSuffix(driver.CleanText(data), "\n"), "\n")
	truncated := start > 0 || len(lines) > n
	return lines[max(0, len(lines)-n):], truncated, nil
}
