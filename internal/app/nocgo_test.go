package app

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBuildWithoutCgo checks that package cagent declares all names that the program uses even in a build without cgo.
// No other test is built without cgo.
func TestBuildWithoutCgo(t *testing.T) {
	t.Parallel()
	const dir = repository + "/internal/place/cagent"
	without := build.Default
	without.CgoEnabled = false
	p, err := without.ImportDir(dir, 0)
	require.NoError(t, err)
	require.Contains(t, p.GoFiles, "nocgo.go")
	declared := map[string]bool{}
	for _, name := range p.GoFiles {
		for _, d := range parse(t, filepath.Join(dir, name)).Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				declared[d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						declared[spec.Name.Name] = true
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							declared[name.Name] = true
						}
					}
				}
			}
		}
	}
	own, err := without.ImportDir(".", 0)
	require.NoError(t, err)
	used := 0
	for _, name := range own.GoFiles {
		ast.Inspect(parse(t, name), func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "cagent" && x.Obj == nil {
					require.True(t, declared[s.Sel.Name], "%s uses cagent.%s, which needs cgo", name, s.Sel.Name)
					used++
				}
			}
			return true
		})
	}
	require.Greater(t, used, 5)
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	return f
}
