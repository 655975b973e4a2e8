/* noop.c: a worker that returns at once. */
int main(void)
{
	return 0;
}
