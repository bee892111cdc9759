import '../styles/tokens.css';
import '../styles/base.css';
import { mount } from 'svelte';
import Links from './Links.svelte';

const target = document.getElementById('app');
target?.replaceChildren();
if (target) mount(Links, { target });
