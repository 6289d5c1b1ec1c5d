package worktree

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"fleet/internal/runner/gitfiles"
)

// eachBlob calls the function with the content of each named object, in the order of the names. text is nil if the object does
// not exist or is not a blob. The function need not read all of text. The names must not contain line breaks.
func (v *view) eachBlob(ctx context.Context, names []string, blob func(text io.Reader) error) error {
	if len(names) == 0 {
		return nil
	}
	r, w := io.Pipe()
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := v.pipe(ctx, strings.NewReader(strings.Join(names, "\n")+"\n"), w, "cat-file", "--batch=%(objecttype) %(objectsize)")
		_ = w.CloseWithError(err)
		done <- err
	}()
	err := readBlobs(bufio.NewReader(r), len(names), blob)
	cancel()
	_ = r.CloseWithError(io.ErrClosedPipe)
	if cause := <-done; err != nil && cause != nil && errors.Is(err, cause) {
		return cause
	}
	return err
}

// existingObjects returns those of the objects that exist, in the same order.
func (v *view) existingObjects(ctx context.Context, oids []string) ([]string, error) {
	if len(oids) == 0 {
		return nil, nil
	}
	var out bytes.Buffer
	if err := v.pipe(ctx, strings.NewReader(strings.Join(oids, "\n")+"\n"), &out, "cat-file", "--batch-check=%(objectname)"); err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(out.String()) {
		if oid := strings.TrimSuffix(line, "\n"); gitfiles.IsOID(oid) {
			found = append(found, oid)
		}
	}
	return found, nil
}

// readBlobs reads the output of cat-file for n objects.
func readBlobs(r *bufio.Reader, n int, blob func(text io.Reader) error) error {
	for range n {
		line, err := r.ReadString('\n')
		if err != nil {
			return err
		}
		kind, number, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		size, err := strconv.ParseInt(number, 10, 64)
		if err != nil { // "NAME missing"
			if err := blob(nil); err != nil {
				return err
			}
			continue
		}
		text := &io.LimitedReader{R: r, N: size}
		if kind == "blob" {
			err = blob(text)
		} else {
			err = blob(nil)
		}
		if err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, r, text.N+1); err != nil { // with the line break after the object
			return err
		}
	}
	return nil
}
