package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"fleet/internal/waittest"
)

// TestDownload downloads a result in a browser that is signed in. A failed download shows the error and saves no file.
func TestDownload(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice")
	ctx := s.createPapiAs(t, tokens["alice"])
	id := s.startTaskAs(ctx, t, "papi", "echo hello")
	s.waitForEndAs(ctx, t, id)

	b := s.openSignedIn(t, tokens["alice"])
	dir := t.TempDir()
	call(b, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir, BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID,
	})
	b.goTo("/tasks/" + id + "?view=output")
	b.press("Download result")
	path := filepath.Join(dir, "task-"+id+".txt")
	waittest.Until(t, "the browser does not signal that a file is saved", func() bool {
		saved, err := os.ReadFile(path)
		return err == nil && string(saved) == "hello\n"
	})

	b.goTo("/agents/papi")
	b.allowErrors("404")
	b.press("Download unpushed work")
	b.waitForText("nothing to rescue")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)
}
