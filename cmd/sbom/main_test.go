package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"
)

func TestListsTheModulesOfPrograms(t *testing.T) {
	t.Parallel()
	own, err := os.Executable()
	require.NoError(t, err)
	var first, second bytes.Buffer
	require.NoError(t, run(&first, []string{"v1.2.3", own}))
	require.NoError(t, run(&second, []string{"v1.2.3", own, own}))
	require.Equal(t, first.String(), second.String(), "each module must be listed once, and always in the same order")

	var bom cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(&first, cdx.BOMFileFormatJSON).Decode(&bom))
	require.Equal(t, "fleet", bom.Metadata.Component.Name)
	require.Equal(t, "v1.2.3", bom.Metadata.Component.Version)
	var names []string
	for _, c := range *bom.Components {
		names = append(names, c.Name)
		require.Equal(t, "pkg:golang/"+c.Name+"@"+c.Version, c.PackageURL)
	}
	require.Contains(t, names, "github.com/CycloneDX/cyclonedx-go")
	require.Contains(t, names, "std")
}

// TestListsTheLibrariesOfThePage reads the lock file of the page, which has packages for development too.
func TestListsTheLibrariesOfThePage(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(&out, []string{"v1.2.3", filepath.Join("..", "..", "internal", "face", "page", "package-lock.json")}))
	for _, library := range []string{"svelte", "uplot", "virtua", "diff2html", "anser", "openapi-fetch", "%40profoundlogic/hogan"} {
		require.Contains(t, out.String(), `"pkg:npm/`+library+`@`)
	}
	require.NotContains(t, out.String(), "pkg:npm/vite@")
}

func TestRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(file, []byte("not a program"), 0o600))
	require.ErrorContains(t, run(&bytes.Buffer{}, []string{"v1.2.3", file}), "notes.txt")
	require.ErrorContains(t, run(&bytes.Buffer{}, []string{"v1.2.3"}), "usage")
}
