package postgres

// ImportedTables makes importedTables visible to the tests in package postgres_test.
var ImportedTables = importedTables
