package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

// download calls a method that streams content, and saves the content in the file. It decompresses gzip content.
func (s *session) download(ctx context.Context, m *method, req proto.Message, file string) error {
	r, err := decompress(s.newDownloadReader(ctx, m.path(), req, nil))
	if err != nil {
		return err
	}
	return s.save(r, file)
}

// save writes the content to the file, or to standard output if file is "" or "-". It explains errors
// with downloadError.
func (s *session) save(content io.Reader, file string) error {
	if file != "" && file != "-" {
		n, err := writeFile(file, content)
		if err == nil {
			s.note("Wrote %s to %s.", sizeText(n), file)
		}
		return downloadError(err)
	}
	w := &outputWriter{screen: s.screen}
	_, err := io.Copy(w, content)
	w.flush()
	if s.screen.firstWriteErr() != nil {
		return s.screen.firstWriteErr()
	}
	return downloadError(err)
}

// checkOutputFile returns an error if the value of -o is an output format. It is for commands in which -o names a file.
func checkOutputFile(file string) error {
	var f format
	if f.Set(file) == nil {
		return usagef("-o names a file in this command, not a format: write ./%s for a file with that name", file)
	}
	return nil
}

// downloadError returns err, or a clearer error if the content ended early or was damaged.
func downloadError(err error) error {
	for _, why := range []error{io.ErrUnexpectedEOF, gzip.ErrChecksum, gzip.ErrHeader} {
		if errors.Is(err, why) {
			return Fail(ExitError, "download it again", "the content is not complete: %v", err)
		}
	}
	return err
}

// errDamaged means that the downloaded data differs from the server's.
var errDamaged = Fail(ExitError, "download it again", "the content is damaged: its SHA-256 is not the one that the server sent")

// downloadReader is an io.Reader of the content that a stream delivers. At the end of the content, Read returns errDamaged instead of
// io.EOF if the content does not have the checksum that the server sent.
type downloadReader struct {
	next    func() (proto.Message, error)
	pending []byte
	sum     hash.Hash // of the content so far
	wantSum string    // the SHA-256 that the server sent, in hex; empty if it has not sent one
}

// newDownloadReader returns a reader of the content that the method streams. It passes onResponse to attempts.receiver.
func (s *session) newDownloadReader(ctx context.Context, method string, req proto.Message, onResponse func(proto.Message)) *downloadReader {
	return &downloadReader{next: s.conn.newAttempts(method, req).receiver(ctx, (&httpbody.HttpBody{}).ProtoReflect().Type(), onResponse), sum: sha256.New()}
}

func (d *downloadReader) Read(b []byte) (int, error) {
	for len(d.pending) == 0 {
		m, err := d.next()
		if isEnd(err) && d.wantSum != "" && hex.EncodeToString(d.sum.Sum(nil)) != d.wantSum {
			err = errDamaged
		}
		if err != nil {
			return 0, err
		}
		body, _ := m.(*httpbody.HttpBody)
		d.pending = body.GetData()
		for _, extension := range body.GetExtensions() {
			if info := new(fleetv1.PayloadInfo); extension.UnmarshalTo(info) == nil {
				d.wantSum = info.GetSha256()
			}
		}
	}
	n := copy(b, d.pending)
	d.sum.Write(b[:n])
	d.pending = d.pending[n:]
	return n, nil
}

// decompress returns a reader that decompresses the content of r if it is gzip, and returns it unchanged otherwise. It waits for the first
// two bytes of r.
func decompress(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	magic, err := b.Peek(2)
	if err != nil && !isEnd(err) {
		return nil, err
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return b, nil
	}
	return gzip.NewReader(b)
}

// writeFile writes the content to the file and returns the number of bytes. It first writes to the file NAME.part, and renames that file
// when the whole content has arrived. It writes directly to a file that is not regular, such as a terminal or a pipe.
func writeFile(name string, content io.Reader) (n int64, err error) {
	part := name
	if info, err := os.Stat(name); err != nil || info.Mode().IsRegular() {
		part = name + ".part"
	}
	f, err := os.Create(part)
	if err != nil {
		return 0, usagef("cannot write the file: %v", err)
	}
	n, err = io.Copy(f, content)
	if e := f.Close(); err == nil {
		err = e
	}
	if part == name {
		return n, err
	}
	if err == nil {
		err = os.Rename(part, name)
	}
	if err != nil {
		_ = os.Remove(part) // the first error is the one that matters
	}
	return n, err
}

// outputWriter writes to the screen. It keeps back the bytes of an incomplete UTF-8 character until the other bytes arrive, or until
// flush is called.
type outputWriter struct {
	screen     *screen
	incomplete []byte
}

func (w *outputWriter) Write(p []byte) (int, error) {
	text := append(w.incomplete, p...)
	end := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if utf8.RuneStart(text[len(text)-i]) {
			if !utf8.FullRune(text[len(text)-i:]) {
				end = len(text) - i
			}
			break
		}
	}
	w.screen.printPart(string(text[:end]))
	w.incomplete = bytes.Clone(text[end:])
	return len(p), w.screen.firstWriteErr()
}

func (w *outputWriter) flush() { w.screen.printPart(string(w.incomplete)) }
